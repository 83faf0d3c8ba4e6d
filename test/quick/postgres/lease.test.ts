/** Unit tests of which setting of synchronous_standby_names makes a commit evidence that no standby has been promoted. */
import { expect, test } from 'vitest';
import { everyStandbyConfirms } from '../../../src/store/postgres/lease.ts';

test.each([
  ['node2'],
  ['"node,2"'],
  ['FIRST 1 (node2)'],
  ['1 (node2)'],
  ['first 2 (node2, "node 3")'],
  [' FIRST  1  ( "a""b" ) '],
])('%s: each listed standby confirms', (setting) => {
  expect(everyStandbyConfirms(setting)).toBe(true);
});

test.each([
  [''],
  ['*'],
  ['FIRST 1 (*)'],
  ['node2, node3'],
  ['FIRST 1 (node2, node3)'],
  ['2 (node2, node3, node4)'],
  ['ANY 1 (node2)'],
  ['any 2 (node2, node3)'],
  ['ANY 1 (node2, node3)'],
])('%s: a standby may be promoted that has not confirmed', (setting) => {
  expect(everyStandbyConfirms(setting)).toBe(false);
});
