/** Unit tests of the lease: which commits are evidence, and how the hosts are asked. */
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, onTestFinished, test, vi } from 'vitest';
import type { Hosts } from '../../../src/store/postgres/hosts.ts';
import { everyStandbyConfirms, startLease } from '../../../src/store/postgres/lease.ts';
import type { Sql } from '../../../src/store/postgres/sql.ts';
import { readTarget } from '../../../src/store/postgres/url.ts';

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

test('a host that failed to answer is asked on a new connection, which the end of the old one does not replace', async () => {
  const target = readTarget('postgres://a,b/animals?reads=lease');
  const [a, b] = target.hosts;
  const ends: (() => void)[] = [];
  const standby = Object.assign(async () => [{ age: 10_000 }], { unsafe: async () => [{ timeline: null }] });
  const broken = Object.assign(standby.bind(undefined), { unsafe: () => Promise.reject(new Error('read ECONNRESET')) });
  const dial = vi.fn(async (host: unknown, _settings: unknown, onClose: () => void) => {
    if (host === b) ends.push(onClose);
    const sql = (host === b && ends.length === 1 ? broken : standby) as unknown as Sql;
    return { sql, timeline: undefined, abandon: async () => undefined, destroy: () => undefined };
  });
  const hosts = { dial, primary: () => ({ host: a, timeline: 1 }), onMove: () => undefined } as unknown as Hosts;
  const lease = startLease(target, hosts);
  onTestFinished(lease.close);
  await vi.waitFor(() => expect(ends).toHaveLength(2), { timeout: 2000 });
  ends[0]?.();
  await lease.renewed();
  await sleep(1200);
  expect(ends).toHaveLength(2);
  expect(lease.holds()).toBe(true);
});
