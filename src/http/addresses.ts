/** Addresses of clients: which one a request comes from, and what limits count it as. */
import type { IncomingMessage } from 'node:http';
import { BlockList, isIP, isIPv4, isIPv6 } from 'node:net';
import findAddress from '@fastify/proxy-addr';

/**
 * The IP address of a client whose request comes from a trusted proxy with the address `own`. `isProxy`: whether an address is that of one. It may
 * append a port in X-Forwarded-For, and pass on text that is no address: its own address is then used, as it is if it has disconnected.
 */
export function addressOf(request: IncomingMessage, own: string, isProxy: (address: string) => boolean): string {
  if (!request.socket.remoteAddress || !request.headers['x-forwarded-for']) return own;
  const found = findAddress(request, isProxy);
  return [found, withoutPort(found)].find((address) => isIP(address) > 0) ?? own;
}

function withoutPort(text: string): string {
  const [address = ''] = text.startsWith('[') ? text.slice(1).split(']', 1) : text.split(':', 1);
  return address;
}

/**
 * What limits count an address as: one client often has a whole /64 network of IPv6 addresses (RFC 6177). An IPv4 address counts as itself,
 * also in the form that an IPv6 socket has (::ffff:192.0.2.1). Empty if the address is unknown.
 */
export function networkOf(address = ''): string {
  const plain = address.replace(/^::ffff:(?=\d+\.)/i, '');
  if (!isIPv6(plain)) return plain;
  const [head = '', tail] = plain.split('::');
  const groups = head === '' ? [] : head.split(':');
  const last = tail === undefined || tail === '' ? [] : tail.split(':');
  if (tail !== undefined) while (groups.length + last.length < 8) groups.push('0');
  return `${groups.concat(last).slice(0, 4).join(':')}::/64`;
}

/**
 * Returns a function: is this one of `addresses`, or of the networks among them? Text that is no address is not. For trusted proxies, Fastify asks for
 * each address in X-Forwarded-For, of which there may be thousands.
 */
export function inNetworks(addresses: readonly string[]): (address: string) => boolean {
  const list = new BlockList();
  for (const text of addresses) {
    const [address = '', prefix] = text.split('/');
    if (prefix === undefined) list.addAddress(address, familyOf(address));
    else list.addSubnet(address, Number(prefix), familyOf(address));
  }
  return (address) => list.check(address, familyOf(address));
}

function familyOf(address: string): 'ipv4' | 'ipv6' {
  return isIPv4(address) ? 'ipv4' : 'ipv6';
}
