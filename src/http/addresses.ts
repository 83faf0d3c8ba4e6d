/** Which client a request of a proxy comes from. */
import type { IncomingMessage } from 'node:http';
import { isIP } from 'node:net';
import findAddress from '@fastify/proxy-addr';
import { plainAddress } from './networks.ts';

/**
 * The IP address of the client of a trusted proxy, whose own is `own`. The proxy may append a port in X-Forwarded-For, and pass on text that is no
 * address: `own` is then returned, as it is after the proxy has disconnected. `isProxy`: whether an address is that of a trusted proxy.
 */
export function addressOf(request: IncomingMessage, own: string, isProxy: (address: string) => boolean): string {
  if (!request.socket.remoteAddress || !request.headers['x-forwarded-for']) return own;
  const found = findAddress(request, (address) => isProxy(address) || isProxy(withoutPort(address)));
  return plainAddress([found, withoutPort(found)].find((address) => isIP(address) > 0) ?? own);
}

function withoutPort(text: string): string {
  const [address = ''] = text.startsWith('[') ? text.slice(1).split(']', 1) : text.split(':', 1);
  return address;
}
