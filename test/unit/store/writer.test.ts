/** Unit tests of the main thread's side of the writer, with a fake thread that can also report errors of a failing disk. */
import { EventEmitter } from 'node:events';
import { syncBuiltinESMExports } from 'node:module';
import { setImmediate } from 'node:timers/promises';
import workerThreads from 'node:worker_threads';
import { expect, onTestFinished, test, vi } from 'vitest';
import { startWriter } from '../../../src/store/sqlite/writer.ts';
import type { Request } from '../../../src/store/sqlite/writer-thread.ts';

class Thread extends EventEmitter {
  static last: Thread;
  received: Request[] = [];

  constructor() {
    super();
    Thread.last = this;
  }

  postMessage(request: Request): void {
    this.received.push(structuredClone(request));
  }

  /** Reports the oldest writes as committed, with these outputs. */
  commit(...outputs: unknown[]): void {
    this.emit('message', { type: 'writer-reply', count: outputs.length, outputs: JSON.stringify(outputs) });
  }

  fail(count: number, code: string): void {
    this.emit('message', { type: 'writer-reply', count, error: { code, message: `told ${code}` } });
  }
}

function startOn(options: Parameters<typeof startWriter>[1] = {}) {
  const { Worker } = workerThreads;
  Object.assign(workerThreads, { Worker: Thread });
  syncBuiltinESMExports();
  onTestFinished(() => {
    Object.assign(workerThreads, { Worker });
    syncBuiltinESMExports();
  });
  const writer = startWriter('store.db', options);
  const pet = { categoryId: '7', status: 'sold', at: 0 } as const;
  const write = (name: string) => writer.addPet({ ...pet, name }, (outcome) => outcome);
  return { writer, write, thread: Thread.last };
}

/** A few turns of the event loop, however slow it is: the next batch is sent two turns after a reply. */
async function turn(): Promise<void> {
  for (let turns = 4; turns > 0; turns--) await setImmediate();
}
const unavailable = (message: string) => ({ code: 'service_unavailable', cause: { message } });

test.for(['SQLITE_IOERR_FSYNC', 'SQLITE_IOERR_DIR_FSYNC'])('after %s nothing more is acknowledged', async (code) => {
  for (const count of [1, 0]) {
    const onFatal = vi.fn();
    const logger = { warn: vi.fn(), error: vi.fn() };
    const { writer, write, thread } = startOn({ onFatal, logger });
    const outcomes = Promise.allSettled([write('a'), write('b')]);
    await turn();
    thread.fail(count, code);
    const reason = unavailable(`told ${code}`);
    expect(await outcomes).toMatchObject(Array(2).fill({ status: 'rejected', reason }));
    await expect(write('c')).rejects.toMatchObject(reason);
    expect(onFatal.mock.calls).toEqual([[expect.objectContaining({ code, message: `told ${code}` })]]);
    expect([logger.error.mock.calls, writer.waiting()]).toEqual([[], 0]);
    await turn();
    expect(thread.received).toHaveLength(1);
    const closing = writer.close();
    thread.emit('exit');
    await expect(closing).rejects.toMatchObject({ code });
  }
});

test('a thread that exits rejects all waiting writes and is reported', async () => {
  for (const [error, message] of [
    [undefined, 'the writer thread exited'],
    [new Error('out of memory'), 'out of memory'],
  ] as const) {
    const onFatal = vi.fn();
    const { write, thread } = startOn({ onFatal });
    const first = write('a');
    if (error) thread.emit('error', error);
    thread.emit('exit');
    await expect(first).rejects.toMatchObject(unavailable(message));
    await expect(write('b')).rejects.toMatchObject(unavailable(message));
    expect(onFatal.mock.calls).toEqual([[new Error(message)]]);
  }
});

test('while the disk hangs, 4,000 writes wait, and others are refused at once', async () => {
  const { writer, write, thread } = startOn();
  const waiting = Array.from(Array(4000), (_, index) => write(String(index)));
  await expect(write('one more')).rejects.toMatchObject({ code: 'service_unavailable' });
  expect(writer.waiting()).toBe(4000);
  await turn();
  thread.commit(...waiting.keys());
  expect(await Promise.all(waiting)).toHaveLength(4000);
  await turn();
  const next = write('next');
  await turn();
  thread.commit(1);
  expect(await next).toBe(1);
});
