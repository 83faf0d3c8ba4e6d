/** Addresses of clients, and networks of addresses. */
import type { IncomingMessage } from 'node:http';
import { BlockList, isIP, isIPv4, isIPv6, SocketAddress } from 'node:net';
import findAddress from '@fastify/proxy-addr';

/**
 * The one form of an IP address: IPv6 as RFC 5952 writes it, without a zone; IPv4 as itself, also if an IPv6 socket has it (::ffff:192.0.2.1). Empty if
 * the address is unknown.
 */
export function plainAddress(address = ''): string {
  if (!isIPv6(address)) return address;
  return new SocketAddress({ address, family: 'ipv6' }).address.replace(/^::ffff:(?=\d+\.)/, '');
}

/** What limits count a plain address as: IPv4 as itself, IPv6 as its /64 network, which one client often has as a whole (RFC 6177). */
export function networkOf(address: string): string {
  if (!isIPv6(address)) return address;
  const [head = '', tail] = address.split('::');
  const groups = head === '' ? [] : head.split(':');
  const last = tail === undefined || tail === '' ? [] : tail.split(':');
  if (tail !== undefined) while (groups.length + last.length < 8) groups.push('0');
  return `${groups.concat(last).slice(0, 4).join(':')}::/64`;
}

/**
 * Returns a function: is this one of `addresses`, or in one of the networks among them? Text that is no address is not. It must be fast: X-Forwarded-For
 * may have thousands of addresses.
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

/** The address of a client, and what limits count it as. Both are empty after the client has disconnected. */
export interface Client {
  address: string;
  network: string;
}

export const clientAt = (address: string): Client => ({ address, network: networkOf(address) });

/**
 * The client of a request from a proxy, whose own address is that of `proxy`. A proxy names its client in X-Forwarded-For, where it may append a port, and
 * pass on text that is no address: `proxy` is then returned. `isProxy`: whether an address is that of a trusted proxy.
 */
export function clientBehind(request: IncomingMessage, proxy: Client, isProxy: (address: string) => boolean): Client {
  if (!request.headers['x-forwarded-for'] || !isProxy(proxy.address)) return proxy;
  const found = findAddress(request, (address) => isProxy(address) || isProxy(withoutPort(address)));
  const address = [found, withoutPort(found)].find((text) => isIP(text) > 0);
  return address === undefined ? proxy : clientAt(plainAddress(address));
}

function withoutPort(text: string): string {
  const [address = ''] = text.startsWith('[') ? text.slice(1).split(']', 1) : text.split(':', 1);
  return address;
}
