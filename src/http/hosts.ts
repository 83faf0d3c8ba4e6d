/**
 * The hosts that requests may name. An attacker can let the host name of a web page lead to this machine (DNS rebinding). The browser then takes
 * the server for the page's own site, and CORS does not apply. But it sends the page's host name, which this check rejects.
 */
import type { IncomingMessage } from 'node:http';
import { inNetworks } from './networks.ts';

/** uri-host [":" port] (RFC 9110, section 7.2). Node joins repeated Host headers with a comma and a space, which no valid host contains. */
export const hostSyntax = /^(?:\[[0-9A-Za-z.:_~-]+\]|(?:[\w.~!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*)(?::\d*)?$/;

/** A target in absolute form. */
const absoluteForm = /^([a-z][a-z\d+.-]*):\/\/([^/?#]*)/i;

/** Names that browsers resolve to this machine (RFC 6761, section 6.3), and addresses, as `hostnameOf` returns them: DNS rebinding needs a name. */
const always = /^(?:(?:.+\.)?localhost|\d+\.\d+\.\d+\.\d+|\[.+\])$/;

/** The scheme, in lower case, and the authority of a target in absolute form. Undefined in any other form. */
export function absoluteFormOf(url: string): { scheme: string; authority: string } | undefined {
  const [, scheme, authority = ''] = absoluteForm.exec(url) ?? [];
  return scheme === undefined ? undefined : { scheme: scheme.toLowerCase(), authority };
}

/** The host and port that a request names: those of a target in absolute form replace the Host header (RFC 9112, section 3.2.2). */
export function hostOf({ url = '', headers }: IncomingMessage): string | undefined {
  return absoluteFormOf(url)?.authority ?? headers.host;
}

/** The host of `text`, without its port and in the form of URLs: a name in lower case, an IPv6 address in brackets. Undefined if invalid. */
function hostnameOf(text: string): string | undefined {
  return hostSyntax.test(text) ? URL.parse(`http://${text}`)?.hostname.replace(/\.$/, '') : undefined;
}

/** Whether an IP address leads to this machine only. */
export const isLoopback = inNetworks(['127.0.0.0/8', '::1']);

/** Whether a request may name `host`, which may have a port. Undefined: the request names none. */
export type ServesHost = (host: string | undefined) => boolean;

/**
 * Serves the hosts `names`, given without a port, localhost and every IP address. A request without a host (HTTP/1.0) is served: a probe may send
 * it, but no browser does.
 */
export function createHosts(names: string[]): ServesHost {
  const served = new Set(names.map(hostnameOf));
  /** Nearly all requests name the same host. */
  let last: string | undefined;
  return (host) => {
    if (host === last || host === undefined) return true;
    const name = hostnameOf(host);
    if (name === undefined || !(served.has(name) || always.test(name))) return false;
    last = host;
    return true;
  };
}
