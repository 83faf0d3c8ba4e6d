/** Networks of addresses: what limits count an address as, and which addresses are in a list. */
import { BlockList, isIPv4, isIPv6 } from 'node:net';

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
