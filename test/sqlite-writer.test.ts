/** The main thread's end of the writer by itself, before a thread that answers what it is told: also what only a failing disk would say. */
import { EventEmitter } from 'node:events';
import { syncBuiltinESMExports } from 'node:module';
import { setTimeout as sleep } from 'node:timers/promises';
import workerThreads, { type ResourceLimits } from 'node:worker_threads';
import { expect, onTestFinished, test, vi } from 'vitest';
import { startWriter } from '../src/repository/sqlite/writer.ts';
import type { Reply, Request, Write } from '../src/repository/sqlite/writer-thread.ts';
import type { OpenOptions } from '../src/repository/store.ts';

class Thread extends EventEmitter {
  static last: Thread;
  received: Request[] = [];
  options: { workerData: string; resourceLimits: ResourceLimits };

  constructor(_file: URL, options: Thread['options']) {
    super();
    this.options = options;
    Thread.last = this;
  }

  postMessage(request: Request): void {
    this.received.push(structuredClone(request));
  }

  reply(reply: Reply): void {
    this.emit('message', reply);
  }

  /** Commits the oldest writes, whose outputs are `outputs`. */
  commit(...outputs: unknown[]): void {
    this.reply({ count: outputs.length, outputs: JSON.stringify(outputs) });
  }

  fail(count: number, code: string): void {
    this.reply({ count, error: { code, message: `told ${code}` } });
  }
}

function startOn(options: Partial<OpenOptions> = {}) {
  const { Worker } = workerThreads;
  Object.assign(workerThreads, { Worker: Thread });
  syncBuiltinESMExports();
  onTestFinished(() => {
    Object.assign(workerThreads, { Worker });
    syncBuiltinESMExports();
  });
  const writer = startWriter('store.db', { now: () => new Date(), ...options });
  const write = (name: string, characters?: number) => writer.write('removeAccount', { name }, characters);
  return { writer, write, thread: Thread.last };
}

/** A few turns of the event loop: the next batch goes two turns after a reply. */
const turn = () => sleep(5);
const named = (request: Request | undefined) =>
  (JSON.parse(request ?? '[]') as Write[]).map(([, input]) => (input as { name: string }).name);
const unavailable = (message: string) => ({ code: 'service_unavailable', cause: { message } });

test('the thread is given the file, and a bound to its young generation', () => {
  const { thread } = startOn();
  expect(thread.options).toEqual({ workerData: 'store.db', resourceLimits: { maxYoungGenerationSizeMb: 12 } });
});

test('one message at a time: what comes while it is under way is the next', async () => {
  const commits: number[] = [];
  const { writer, write, thread } = startOn({ onCommit: (count) => commits.push(count) });
  const first = [write('a'), write('b')];
  expect([thread.received, writer.waiting()]).toEqual([[], 2]);
  await turn();
  const then = [write('c')];
  await turn();
  then.push(write('d'));
  await turn();
  expect(thread.received.map(named)).toEqual([['a', 'b']]);
  expect(writer.waiting()).toBe(4);
  // A part of what was sent is not all of it.
  thread.commit('1');
  expect(thread.received).toHaveLength(1);
  thread.commit('2');
  expect(await Promise.all(first)).toEqual(['1', '2']);
  await turn();
  expect(thread.received.map(named)).toEqual([
    ['a', 'b'],
    ['c', 'd'],
  ]);
  thread.commit('3', '4');
  expect(await Promise.all(then)).toEqual(['3', '4']);
  // A checkpoint is no commit.
  thread.commit();
  await turn();
  expect([commits, thread.received.length, writer.waiting()]).toEqual([[1, 1, 2], 2, 0]);
});

test('a write that fails is told, and the next go on', async () => {
  const onFatal = vi.fn();
  const onCheckpointFailure = vi.fn();
  const { write, thread } = startOn({ onFatal, onCheckpointFailure });
  const first = write('a');
  await turn();
  const second = write('b');
  thread.fail(1, 'SQLITE_FULL');
  await expect(first).rejects.toMatchObject(unavailable('told SQLITE_FULL'));
  await turn();
  expect(thread.received.map(named)).toEqual([['a'], ['b']]);
  thread.commit('2');
  expect(await second).toBe('2');
  for (const told of [onFatal, onCheckpointFailure]) expect(told).not.toHaveBeenCalled();
});

test('a checkpoint that fails is told, and nothing else fails', async () => {
  const onFatal = vi.fn();
  const onCheckpointFailure = vi.fn();
  const { write, thread } = startOn({ onFatal, onCheckpointFailure });
  const first = write('a');
  await turn();
  thread.fail(0, 'SQLITE_IOERR_WRITE');
  expect(onCheckpointFailure.mock.calls).toEqual([[expect.objectContaining({ code: 'SQLITE_IOERR_WRITE' })]]);
  thread.commit('1');
  expect(await first).toBe('1');
  expect(onFatal).not.toHaveBeenCalled();
  // Nor where nobody asked to be told.
  startOn().thread.fail(0, 'SQLITE_IOERR_WRITE');
});

test.for(['SQLITE_IOERR_FSYNC', 'SQLITE_IOERR_DIR_FSYNC'])(
  'after %s nothing is acknowledged any more',
  async (code) => {
    for (const count of [1, 0]) {
      const onFatal = vi.fn();
      const onCheckpointFailure = vi.fn();
      const { writer, write, thread } = startOn({ onFatal, onCheckpointFailure });
      const outcomes = Promise.allSettled([write('a'), write('b')]);
      await turn();
      thread.fail(count, code);
      const reason = unavailable(`told ${code}`);
      expect(await outcomes).toMatchObject(Array(2).fill({ status: 'rejected', reason }));
      await expect(write('c')).rejects.toMatchObject(reason);
      expect(onFatal.mock.calls).toEqual([[expect.objectContaining({ code, message: `told ${code}` })]]);
      expect([onCheckpointFailure.mock.calls, writer.waiting()]).toEqual([[], 0]);
      await turn();
      expect(thread.received).toHaveLength(1);
      const closing = writer.close();
      thread.emit('exit');
      await expect(closing).rejects.toMatchObject({ code });
    }
  },
);

test.for(['SQLITE_IOERR_FSTAT', 'NO_SQLITE_IOERR_FSYNC', 'SQLITE_IOERR_FSYNC_LATER'])(
  '%s is not that: the next write goes on',
  async (code) => {
    const { write, thread } = startOn();
    const first = write('a');
    await turn();
    thread.fail(1, code);
    await expect(first).rejects.toThrow();
    const second = write('b');
    await turn();
    thread.commit('2');
    expect(await second).toBe('2');
  },
);

test('a thread that ends takes what waits with it, and is told', async () => {
  const onFatal = vi.fn();
  const { write, thread } = startOn({ onFatal });
  const first = write('a');
  thread.emit('exit');
  await expect(first).rejects.toMatchObject(unavailable('the writing thread ended'));
  await expect(write('b')).rejects.toMatchObject(unavailable('the writing thread ended'));
  expect(onFatal.mock.calls).toEqual([[new Error('the writing thread ended')]]);

  const other = startOn({ onFatal });
  other.thread.emit('error', new Error('out of memory'));
  other.thread.emit('exit');
  await expect(other.write('b')).rejects.toMatchObject(unavailable('out of memory'));
  expect(onFatal).toHaveBeenLastCalledWith(new Error('out of memory'));

  // Also where nobody asked to be told.
  const unwatched = startOn();
  unwatched.thread.emit('exit');
  await expect(unwatched.write('c')).rejects.toMatchObject(unavailable('the writing thread ended'));
});

test('ten thousand writes may wait, and 32 Mi characters of text', async () => {
  const { write, thread } = startOn();
  const all = Array.from({ length: 10_000 }, (_, index) => write(`n${index}`));
  await expect(write('one more')).rejects.toMatchObject(unavailable('too many writes are waiting'));
  await turn();
  thread.commit(...Array(10_000).fill(''));
  await Promise.all(all);

  const mebi = 1024 * 1024;
  const long = [write('a', 30 * mebi), write('b', 2 * mebi)];
  await expect(write('c', 1)).rejects.toMatchObject(unavailable('too many writes are waiting'));
  long.push(write('d'));
  await turn();
  thread.commit('1', '2', '3');
  await Promise.all(long);
  const again = write('e', 32 * mebi);
  await turn();
  thread.commit('4');
  expect(await again).toBe('4');
});

test('the end: what was accepted goes before the word that no more comes, and what comes is refused', async () => {
  const onFatal = vi.fn();
  const { writer, write, thread } = startOn({ onFatal });
  const first = write('a');
  let closed = false;
  const closing = writer.close().then(() => {
    closed = true;
  });
  await expect(write('b')).rejects.toMatchObject(unavailable('the store is closed'));
  await turn();
  expect(thread.received.map((request) => request && named(request))).toEqual([['a'], null]);
  thread.commit('1');
  expect([await first, closed]).toEqual(['1', false]);
  thread.emit('exit');
  await closing;
  await turn();
  expect(thread.received).toHaveLength(2);
  expect(onFatal).not.toHaveBeenCalled();
});
