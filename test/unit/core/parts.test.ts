import type { IncomingMessage } from 'node:http';
import { describe, expect, test } from 'vitest';
import { quoted, toNfc } from '../../../src/core/schema.ts';
import { createHosts, hostOf, isLoopback } from '../../../src/http/hosts.ts';
import { createRequestLog } from '../../../src/http/log.ts';
import { createRecent } from '../../../src/http/recent.ts';

test.each([
  ['a"b', '"a\\"b"'],
  ['x'.repeat(64), `"${'x'.repeat(64)}"`],
  ['x'.repeat(65), `"${'x'.repeat(64)}…"`],
  // Half of a surrogate pair.
  [`${'x'.repeat(63)}\u{1f436}y`, `"${'x'.repeat(63)}\ufffd…"`],
  ['ast_live_0123Az', '"ast_live_…"'],
  [`ast_test_a ast_live_${'b'.repeat(80)}!`, '"ast_test_… ast_live_…!"'],
  ['ast_test_', '"ast_test_"'],
])('an error quotes %s with at most 64 characters, well-formed, and without an API key', (text, shown) => {
  expect(quoted(text)).toBe(shown);
});

describe('the hosts that requests may name', () => {
  const expected = [
    'localhost',
    'LocalHost:1',
    'localhost.',
    'a.localhost:80',
    '127.0.0.1',
    '127.255.0.9:65535',
    'localhost:',
    '[::1]',
    '[::1]:80',
    '[0:0:0:0:0:0:0:1]',
    '[::ffff:127.0.0.1]',
    'store',
    'STORE:80',
    'animals.example.com.',
    '192.0.2.1',
    '0.0.0.0:80',
    '128.0.0.1',
    '[::]',
    '[2001:DB8:0::2]:1',
    '[::ffff:192.0.2.1]',
  ];
  const foreign = [
    '',
    'evil.example',
    'localhost.evil.example',
    '127.0.0.1.evil.example',
    'evillocalhost',
    'localhost:99999',
    'animals.example',
    'a.store',
    'me@localhost',
    'localhost, evil.example',
    'evil.example/localhost',
    '[::1',
  ];

  test('are the names, localhost and addresses', () => {
    // A server may listen on ::, which is no name.
    const serves = createHosts(['::', 'Store', 'animals.example.com']);
    expect([...foreign, ...expected, ...foreign].filter(serves)).toEqual(expected);
    expect(serves(undefined)).toBe(true);
  });

  test('come from a target in absolute form before Host', () => {
    const of = (url: string) => hostOf({ url, headers: { host: 'a' } } as IncomingMessage);
    for (const url of ['/', '//b/', '/http://b/', '*', 'b/', 'b:80']) expect([url, of(url)]).toEqual([url, 'a']);
    for (const url of ['http://b/', 'HTTPS://b', 'http://b?/', 'ftp://b/c']) expect([url, of(url)]).toEqual([url, 'b']);
    expect(of('http://a@b:80/')).toBe('a@b:80');
  });

  test('are limited on a loopback address', () => {
    const all = ['127.0.0.1', '127.1.2.3', '::1', '0:0:0:0:0:0:0:1', '::ffff:127.0.0.1'];
    expect([...all, '0.0.0.0', '::', '192.0.2.1', '2001:db8::1', '::2', 'store'].filter(isLoopback)).toEqual(all);
  });
});

test('the request log has times to 0.01 ms, and no unknown members', () => {
  const lines: string[] = [];
  const logRequest = createRequestLog((line) => lines.push(line), '"pid":7,"hostname":"h"');
  const traceId = '0af7651916cd43dd8448eb211c80319c';
  logRequest({ reqId: 'a', status: 200, method: 'GET', route: '/x', ms: 1.23456, address: '::1', key: 1, traceId });
  logRequest({ reqId: 'b', status: 400, code: 'bad_request' });
  logRequest({ reqId: 'c', status: 499, method: 'GET', route: null, ms: 1000.999, aborted: true });
  const common = { level: 30, time: expect.any(Number), pid: 7, hostname: 'h', msg: 'request' };
  expect(lines.map((line) => JSON.parse(line))).toEqual([
    { ...common, reqId: 'a', status: 200, method: 'GET', route: '/x', ms: 1.23, address: '::1', key: 1, traceId },
    { ...common, reqId: 'b', status: 400, code: 'bad_request' },
    { ...common, reqId: 'c', status: 499, method: 'GET', route: null, ms: 1001, aborted: true },
  ]);
  for (const line of lines) expect(line.endsWith('}\n')).toBe(true);
});

test('toNfc joins text that can have few enough characters, and leaves longer text as it is', () => {
  const letters = (units: number) => 'e\u0301'.repeat(units / 2);
  expect(toNfc(letters(600), 100)).toBe('é'.repeat(300));
  expect(toNfc(letters(602), 100)).toBe(letters(602));
});

test('what is remembered again and again takes no more memory', () => {
  const known = createRecent<number, object>(10);
  const before = process.memoryUsage().heapUsed;
  for (let at = 0; at < 1e6; at++) known.set(7, { at });
  expect(process.memoryUsage().heapUsed - before).toBeLessThan(50e6);
});
