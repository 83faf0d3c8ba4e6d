/** Checks every request before its route and API key: the length of the URL, the framing, the host, and the header Expect. */
import type { IncomingMessage } from 'node:http';
import fp from 'fastify-plugin';
import { ApiError } from '../core/errors.ts';
import { limits } from '../core/limits.ts';
import { HttpError } from './errors.ts';
import { absoluteFormOf, hostSyntax, type ServesHost } from './hosts.ts';

const close = { connection: 'close' };
const badRequest = (message: string) => new HttpError('bad_request', close, message);

const notOneHost = badRequest('The request must have exactly one Host header, with a valid value.');
const otherCoding = badRequest('The only supported transfer coding is chunked, and only in HTTP/1.1.');
const invalidUrl = new ApiError('invalid_url');
const otherScheme = badRequest('This port serves http:// only: the URL names another scheme.');
const otherHost = badRequest(
  'The host of this request is not served here. The operator can add it to ALLOWED_HOSTS, or name it in BASE_URL.',
);
const tooLong = new ApiError('uri_too_long');
// Close: a late body could be parsed as the next request.
const otherExpectation = new HttpError('expectation_failed', close);

/** Returns a function: why a request is rejected regardless of its route, or undefined. If `servesHost` is undefined, every host is served. */
function createCheck(
  servesHost: ServesHost | undefined,
): (url: string, request: IncomingMessage) => ApiError | undefined {
  return (url, { httpVersion, headers: { host, expect, 'transfer-encoding': coding } }) => {
    if (url.length > limits.urlBytes) return tooLong;
    // RFC 9112, section 3.2: exactly one valid Host, except in HTTP/1.0.
    if (host === undefined ? httpVersion === '1.1' : !hostSyntax.test(host)) return notOneHost;
    // RFC 9112, section 6.1: HTTP/1.0 has no transfer codings, and an unknown coding cannot be decoded.
    if (coding !== undefined && (httpVersion === '1.0' || !/^chunked$/i.test(coding))) return otherCoding;
    if (!isReadable(url)) return invalidUrl;
    // RFC 9110, section 7.4.
    const target = absoluteFormOf(url);
    if (target && target.scheme !== 'http') return otherScheme;
    if (servesHost && !servesHost(target?.authority ?? host)) return otherHost;
    const isSupported = expect === undefined || httpVersion === '1.0' || /^100-continue$/i.test(expect);
    return isSupported ? undefined : otherExpectation;
  };
}

/** Whether the router can read a URL: a path, or an absolute form with a host and without a fragment; percent-encoded as UTF-8. */
function isReadable(url: string): boolean {
  if (!url.startsWith('/')) {
    const { authority = '' } = absoluteFormOf(url) ?? {};
    // User information is not valid either (RFC 9110, section 4.2.4).
    if (authority === '' || !hostSyntax.test(authority) || url.includes('#') || !URL.canParse(url)) return false;
  }
  if (!url.includes('%')) return true;
  const [path = ''] = url.split('?', 1);
  try {
    return decodeURIComponent(path) !== undefined;
  } catch {
    return false;
  }
}

/**
 * For Fastify's option of this name. The router answers a URL that it cannot read without any hook: no limit, no line in the log. So it gets a path that no
 * route has, and the check above rejects the request.
 */
export const rewriteUrl = ({ url = '' }: IncomingMessage): string => (isReadable(url) ? url : '//');

interface CheckOptions {
  /** The hosts that requests may name. If undefined, any. */
  servesHost: ServesHost | undefined;
}

/** Checks each request when its headers have arrived. */
export const requestChecks = fp<CheckOptions>(async (app, { servesHost }) => {
  const check = createCheck(servesHost);
  app.addHook('onRequest', (request, reply, done) => {
    const error = check(request.originalUrl, request.raw);
    if (error) done(error);
    // The handler would run only after a body is read.
    else if (request.is404) app.notFound(request, reply);
    else done();
  });
});
