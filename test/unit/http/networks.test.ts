import { expect, test } from 'vitest';
import { inNetworks, networkOf, plainAddress } from '../../../src/http/networks.ts';

test.for([
  ['192.0.2.7', '192.0.2.7'],
  ['::ffff:192.0.2.7', '192.0.2.7'],
  ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
  ['2001:db8::1', '2001:db8:0:0::/64'],
  ['::1', '0:0:0:0::/64'],
  ['::192.0.2.7', '0:0:0:0::/64'],
  ['fe80::1%eth0', 'fe80:0:0:0::/64'],
  ['2001:0:0:1:2:3:4:5', '2001:0:0:1::/64'],
  ['2001:0DB8:1:02:0::9', '2001:db8:1:2::/64'],
  ['::FFFF:c000:207', '192.0.2.7'],
  // The client disconnected: its address is unknown.
  [undefined, ''],
] as const)('the network of %s is %s', ([address, network]) => {
  expect(networkOf(plainAddress(address))).toBe(network);
});

test.for([
  ['127.0.0.1', true],
  ['::ffff:127.0.0.1', true],
  ['127.0.0.2', false],
  ['10.1.2.3', true],
  ['::ffff:10.1.2.3', true],
  ['2001:db8:1::7', true],
  ['2001:DB8:1:0:0:0:0:7', true],
  ['2001:db8:2::7', false],
  ['fe80::1%eth0', true],
  // What a client wrote, or nothing.
  ['127.1', false],
  ['[::1]:80', false],
  ['', false],
] as const)('%s is the address of a trusted proxy: %s', ([address, trusted]) => {
  const isProxy = inNetworks(['127.0.0.1', '10.0.0.0/8', '2001:db8:1::/48', 'fe80::/10']);
  expect(isProxy(address)).toBe(trusted);
  expect(inNetworks([])(address)).toBe(false);
});
