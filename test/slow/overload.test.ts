/** Tests overload: 3,000 clients that create, each on one connection, at little CPU cost. */
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { percentile } from '../support/percentile.ts';
import { type RawAnswer, rawPost, readAnswer } from '../support/raw.ts';
import { makeStore, serve } from '../support/store-file.ts';
import { figure } from '../support/tier.ts';

const clients = 3000;
const seconds = 60;
const peakSeconds = 5;

/** The response to a request, and its time in milliseconds from the request to its last byte. */
async function ask(socket: Socket, request: string): Promise<{ answer: RawAnswer; ms: number }> {
  const begun = performance.now();
  socket.write(request);
  return new Promise((resolve, reject) => {
    let bytes = Buffer.alloc(0);
    const look = (part: Buffer) => {
      bytes = Buffer.concat([bytes, part]);
      const answer = readAnswer(bytes)?.answer;
      if (!answer) return;
      socket.off('data', look).off('close', reject);
      resolve({ answer, ms: performance.now() - begun });
    };
    socket.on('data', look).once('close', reject);
  });
}

test(
  '3,000 clients get four fifths of the throughput of 64, and 503 with Retry-After at worst',
  async () => {
    // At level warn, because the test keeps the log in memory.
    const { port, key } = await serve(await makeStore(), 1, { env: { LOG_LEVEL: 'warn' } });
    const request = rawPost(key, '{"name":"Biscuit","categoryId":7}');

    /** Each client sends its next request after the response and its Retry-After. Rejects if a connection is refused or closed. */
    async function load(count: number, forSeconds: number) {
      const outcomes: { status: number; retryAfter: string | undefined; ms: number }[] = [];
      const sockets: Socket[] = [];
      while (sockets.length < count) {
        // Few enough for any listen backlog.
        const few = Array.from({ length: Math.min(100, count - sockets.length) }, () => connect(port, '127.0.0.1'));
        await Promise.all(few.map((socket) => once(socket, 'connect')));
        sockets.push(...few);
      }
      const end = performance.now() + forSeconds * 1000;
      const work = sockets.map(async (socket) => {
        while (performance.now() < end) {
          const { answer, ms } = await ask(socket, request);
          const retryAfter = answer.headers['retry-after'];
          outcomes.push({ status: answer.status, retryAfter, ms });
          if (retryAfter) await sleep(Number(retryAfter) * 1000);
        }
        socket.destroy();
      });
      await Promise.all(work);
      return outcomes;
    }

    await load(64, 2);
    const before = await load(64, peakSeconds);
    const outcomes = await load(clients, seconds);
    // The peak is the mean of before and after, because the load of the machine may change.
    const after = await load(64, peakSeconds);
    const peak = (before.length + after.length) / (2 * peakSeconds);
    const accepted = outcomes.filter(({ status }) => status === 201).map(({ ms }) => ms);
    const others = outcomes.filter(({ status }) => status !== 201);
    const share = accepted.length / seconds / peak;
    const p99 = percentile(accepted, 99);
    figure('overload', {
      clients,
      seconds,
      peakPerSecond: peak,
      sharePercent: share * 100,
      p99,
      refused: others.length,
    });
    expect(others.filter(({ status, retryAfter }) => status !== 503 || retryAfter !== '1')).toEqual([]);
    expect(share).toBeGreaterThan(0.8);
    expect(p99).toBeLessThan(5000);
  },
  (seconds + 60) * 1000,
);
