/** Tests the account pages of real processes: many sign-ins at once, and two processes on one store. */
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { Pool } from 'undici';
import { expect, onTestFinished, test } from 'vitest';
import { createPasswords } from '../../../src/account/passwords.ts';
import { openStore } from '../../../src/store/open.ts';
import { keyOf, makeKey } from '../../support/account-pages.ts';
import { sideBySide } from '../../support/client.ts';
import { type FormClient, openFormClient, type Page } from '../../support/form-client.ts';
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

test(
  'two processes on one store share sessions and revoked keys, and count failed attempts each for itself',
  async () => {
    const env = await prepare(2);
    const servers = await Promise.all([startServer({ env }), startServer({ env })]);
    const [first, second] = servers;
    /** The statuses of both. */
    const askBoth = (ask: (server: Server) => Promise<Page>) =>
      Promise.all(servers.map(async (server) => (await ask(server)).status));
    const ada = clientAt(first, 1);
    expect((await signIn(ada, 'p0', password)).status).toBe(303);
    const headers = { cookie: `session=${ada.jar.get('session')}`, 'x-forwarded-for': addressOf(1) };
    const anew = (server: Server) => openFormClient(server.url, headers);
    expect(await askBoth((server) => anew(server).get('/account'))).toEqual([200, 200]);

    const authorization = `Bearer ${keyOf(await makeKey(ada))}`;
    const read = (server: Server) => openFormClient(server.url, { authorization }).get('/v1/pets');
    expect(await askBoth(read)).toEqual([200, 200]);
    const [, id] = /\/account\/keys\/(\d+)\/revoke/.exec((await ada.get('/account')).text) ?? [];
    expect((await ada.post(`/account/keys/${id}/revoke`)).status).toBe(303);
    await sleep(1000);
    expect(await askBoth(read)).toEqual([401, 401]);

    for (const server of servers) {
      const guesses: number[] = [];
      for (let guess = 100; guess <= 110; guess++)
        guesses.push((await signIn(clientAt(server, guess), 'p1', wrong)).status);
      expect(guesses).toEqual([...Array(10).fill(403), 429]);
    }
    expect((await anew(second).post('/account/sign-out')).status).toBe(303);
    expect(await askBoth((server) => anew(server).get('/account'))).toEqual([303, 303]);
  },
  patientMs,
);
