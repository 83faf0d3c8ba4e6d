/** Tests of which requests a turn of the event loop serves, and of those that it holds. */
import { EventEmitter } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, onTestFinished, test, vi } from 'vitest';
import { limits } from '../../../src/core/limits.ts';
import type { Connection } from '../../../src/http/connection/connection.ts';
import { createTurns, leastPerTurn, maxReadingMs, readPerTurn, turnMs } from '../../../src/http/connection/turns.ts';
import { createShares, type Holder } from '../../../src/http/shares.ts';

/** Each request names its holder and what it costs. `served` lists the requests that were served. */
function start() {
  // Only requests take time, so that the tests do not depend on the machine's load.
  let clock = 0;
  const now = vi.spyOn(performance, 'now').mockImplementation(() => clock);
  const shares = createShares(() => {});
  onTestFinished(() => {
    now.mockRestore();
    shares.close();
  });
  const served: string[] = [];
  const nameOf = ({ headers }: IncomingMessage) => String(headers.name);
  const handle = (request: IncomingMessage) => {
    served.push(nameOf(request));
    clock += Number(request.headers.cost);
  };
  const turns = createTurns(handle, {
    shares,
    holderOf: (request) => nameOf(request).slice(0, 1),
    refuse: () => expect.unreachable(),
  });
  function send(name: string, cost = 0): void {
    const record = { begun: performance.now() };
    const request = { headers: { name, cost }, record, socket: { destroyed: false } } as unknown as IncomingMessage;
    const response = Object.assign(new EventEmitter(), { req: request, headersSent: false, destroyed: false });
    turns.serve(request, response as unknown as ServerResponse & { req: IncomingMessage });
  }
  /** The numbers of the connections of a holder that are not read. */
  const paused: Record<Holder, number[]> = {};
  /** Ends the responses of `count` connections of a holder. Returns how many are read later. */
  function end(count: number, holder: Holder, { trusted = false, writable = true } = {}): number {
    paused[holder] ??= [];
    const numbers = paused[holder];
    const later = Array.from(Array(count), (_, at) => {
      const resume = () => numbers.splice(numbers.indexOf(at), 1);
      const socket = { writable, pause: () => numbers.push(at), resume };
      return turns.readLater({ holder: trusted ? undefined : holder, socket } as unknown as Connection);
    });
    return later.filter(Boolean).length;
  }
  const pass = (ms: number) => {
    clock += ms;
  };
  return { ...turns, shares, send, served, paused, end, pass };
}

test('a turn serves requests as they come, until its time is over', async () => {
  const { send, served } = start();
  for (let count = 0; count < 10; count++) send(`a${count}`, 5);
  expect(served).toHaveLength(turnMs / 5);
  await vi.waitFor(() => expect(served).toHaveLength(10));
});

test('of held requests, those of whoever has spent least are served first, and of each the newest', async () => {
  const { send, served, shares, pause } = start();
  // Not held, but charged, too.
  send('a', 5);
  expect(shares.of('a').spentMs).toBe(5);
  shares.of('b').spentMs = 100;
  const release = pause();
  for (const name of ['b1', 'b2', 'a1', 'a2', 'c1', 'c2']) send(name);
  release();
  await vi.waitFor(() => expect(served).toEqual(['a', 'c2', 'c1', 'a2', 'a1', 'b2', 'b1']));
});

test('a request that is held for longer than an empty share is kept is charged all the same', async () => {
  vi.useFakeTimers({ toFake: ['setInterval'] });
  onTestFinished(() => void vi.useRealTimers());
  const { send, shares, pause } = start();
  const release = pause();
  send('a', 5);
  vi.advanceTimersByTime(1000);
  release();
  await nextTurn();
  expect(shares.of('a').spentMs).toBe(5);
});

test('a turn serves held requests for its time only, so that timers and other clients get theirs', async () => {
  const { send, served, pause } = start();
  const release = pause();
  for (let count = 0; count < 20; count++) send(`a${count}`, 5);
  release();
  await nextTurn();
  expect(served).toHaveLength(turnMs / 5);
  // What arrives meanwhile is held, too: it would push out those that wait.
  send('z1');
  expect(served).not.toContain('z1');
  await vi.waitFor(() => expect(served).toHaveLength(21));
});

test('after a turn without time, connections are read in later turns: the longest idle ones first, as many of each holder', async () => {
  const { send, end, paused, shares } = start();
  send('z', turnMs - 1);
  await nextTurn();
  expect(end(1, 'a')).toBe(0);
  send('z', turnMs);
  await nextTurn();
  expect([end(400, 'a'), end(3, 'b'), end(1, 'proxy', { trusted: true })]).toEqual([400, 3, 0]);
  await nextTurn();
  const half = readPerTurn / 2;
  expect(paused).toEqual({ a: Array.from(Array(400 - half), (_, at) => half + at), b: [], proxy: [] });
  // Nobody overtakes the others of its holder, though this turn had time.
  expect([end(1, 'a'), end(1, 'a', { writable: false }), end(1, 'b')]).toEqual([1, 0, 0]);
  for (let turn = 0; turn < 3; turn++) await nextTurn();
  expect(paused.a).toEqual([]);

  // The store is slow.
  send('z', turnMs);
  await nextTurn();
  shares.add('a', 'work', half - 20);
  expect([end(100, 'a'), end(100, 'b')]).toEqual([100, 100]);
  await nextTurn();
  expect([paused.a, paused.b]).toMatchObject([{ length: 80 }, { length: 100 - half }]);
  shares.add('a', 'work', 20);
  await nextTurn();
  expect(paused.a).toHaveLength(80 - leastPerTurn / 2);
});

test('if requests take long to read, a turn reads fewer connections', async () => {
  const { send, end, paused, pass, served } = start();
  for (let count = 0; count < 500; count++) {
    pass(maxReadingMs / 50);
    send('z');
  }
  await vi.waitFor(() => expect(served).toHaveLength(500));
  send('z', turnMs);
  await nextTurn();
  expect(end(400, 'a')).toBe(400);
  await nextTurn();
  // Some 50 were read.
  expect(paused.a?.length).toBeGreaterThan(340);
});

test('beside many holders, no connection is read later than in 0.7 s, and before the process ends all are', async () => {
  const { send, end, paused, pause } = start();
  send('z', turnMs);
  await nextTurn();
  const others = 2 * readPerTurn;
  for (let holder = 0; holder < others; holder++) end(1, holder);
  expect(end(1000, 'a')).toBe(1000);
  send('z', limits.held - 1);
  await nextTurn();
  expect(Object.values(paused).flat()).toHaveLength(999);
  send('z', 1);
  expect(end(1, 'a')).toBe(1);
  await nextTurn();
  expect(paused.a).toHaveLength(1);
  pause();
  expect(paused.a).toEqual([]);
});
