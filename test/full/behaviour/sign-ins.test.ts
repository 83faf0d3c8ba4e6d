/** Tests many sign-ins at once. */
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { Pool } from 'undici';
import { expect, onTestFinished, test } from 'vitest';
import { createPasswords } from '../../../src/account/passwords.ts';
import { openStore } from '../../../src/store/open.ts';
import { sideBySide } from '../../support/client.ts';
import { type FormClient, openFormClient } from '../../support/form-client.ts';
import { percentile } from '../../support/percentile.ts';
import { type Server, startServer } from '../../support/process.ts';
import { emptyStore } from '../../support/store.ts';
import { figure, patientMs, tier } from '../../support/tier.ts';

const password = 'seven otters sing at noon';
const wrong = 'wrong horse wrong battery';

/** A store with `count` people, p0, p1, …, with the same password; and settings for a server behind a proxy on this machine. */
async function prepare(count: number) {
  const DATABASE_URL = await emptyStore();
  const hash = await createPasswords().inTurn('', (hasher) => hasher.hash(password));
  const { people, close } = await openStore(DATABASE_URL, { now: () => new Date() });
  for (let at = 0; at < count; at++) await people.signUp(`p${at}`, hash);
  await close();
  return { DATABASE_URL, TRUST_PROXY: '127.0.0.1', SIGN_UP: 'open' };
}

/** A different address for each number: 10.0.0.0/8. */
const addressOf = (number: number) => `10.${(number >> 16) & 255}.${(number >> 8) & 255}.${number & 255}`;

/** A browser with a connection of its own. */
const clientAt = ({ url }: { url: string }, number: number) =>
  openFormClient(url, { 'x-forwarded-for': addressOf(number) });

const signIn = (client: FormClient, name: string, text: string) =>
  client.post('/account/sign-in', { name, password: text });

const memoryMiB = ({ pid }: Server) =>
  Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024;

/** Reads pets over a few connections until `stop`, which resolves to the times of all reads in milliseconds. Rejects unless each gets 200. */
function startReading({ url }: Server, key: string): { stop: () => Promise<number[]> } {
  const pool = new Pool(url, { connections: 4 });
  onTestFinished(() => pool.destroy());
  const ms: number[] = [];
  let reading = true;
  const readers = sideBySide(4, async (at) => {
    for (let count = 0; reading; count++) {
      const begun = performance.now();
      // Different pages: some come from the response cache, others from the store.
      const path = `/v1/pets?limit=${1 + ((count * 7 + at) % 100)}`;
      const answer = await pool.request({ method: 'GET', path, headers: { authorization: `Bearer ${key}` } });
      await answer.body.dump();
      if (answer.statusCode !== 200) throw new Error(`${path}: ${answer.statusCode}`);
      ms.push(performance.now() - begun);
      await sleep(2);
    }
  });
  return {
    async stop() {
      reading = false;
      await readers;
      return ms;
    },
  };
}

const people = 200;

test(
  `${people} sign-ins at once do not disturb reads: each is answered 303, 403, or 503 with Retry-After`,
  async () => {
    const server = await startServer({ env: await prepare(people) });
    await sideBySide(10, async (at) => void (await signIn(clientAt(server, 1000 + at), `p${at}`, password)));
    const before = memoryMiB(server);
    const reading = startReading(server, await server.firstKey());
    const counts = { 303: 0, 403: 0, 503: 0 };
    let most = before;
    const watch = setInterval(() => {
      most = Math.max(most, memoryMiB(server));
    }, 50);
    await sideBySide(people, async (at) => {
      const client = clientAt(server, at);
      // Every fourth mistypes the password. Who gets 503 comes back.
      for (;;) {
        const { status, headers } = await signIn(client, `p${at}`, at % 4 ? password : wrong);
        counts[status as keyof typeof counts] += 1;
        expect(headers['retry-after']).toBe(status === 503 ? '1' : undefined);
        if (status !== 503) return;
        await sleep(1000);
      }
    });
    clearInterval(watch);
    const ms = await reading.stop();
    const p99 = percentile(ms, 99);
    figure(
      `${people} sign-ins at once: ${counts[303]} × 303, ${counts[403]} × 403, ${counts[503]} × 503; ${ms.length} reads meanwhile, ` +
        `p99 ${p99.toFixed(1)} ms; memory ${before.toFixed(0)} MiB before, ${most.toFixed(0)} at most`,
    );
    expect(counts).toEqual({ 303: 150, 403: 50, 503: expect.any(Number) });
    // More than can be hashed at once have come.
    expect(counts[503]).toBeGreaterThan(0);
    // The quick size shares the machine with other tests. Hashing in the main thread would take all reads many seconds.
    expect(p99).toBeLessThan(tier(2500, 250));
    // Two hashes take 38 MiB while they are computed.
    expect(most - before).toBeLessThan(100);
  },
  patientMs,
);
