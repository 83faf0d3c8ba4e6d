/** Tests many sign-ins at once. */
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { createPasswords } from '../../../src/account/passwords.ts';
import { password, wrong } from '../../support/account-pages.ts';
import { openClient, sideBySide } from '../../support/client.ts';
import { openFormClient } from '../../support/form-client.ts';
import { percentile } from '../../support/percentile.ts';
import { startServer } from '../../support/process.ts';
import { emptyStore, engines, open } from '../../support/store.ts';
import { tier } from '../../support/tier.ts';

/** Adds `count` people to a store, p0, p1, …, with the same password; and returns settings for a server behind a proxy on this machine. */
async function prepare(databaseUrl: string, count: number) {
  const hash = await createPasswords().inTurn('', (hasher) => hasher.hash(password));
  const { people, close } = await open(databaseUrl);
  for (let at = 0; at < count; at++) await people.signUp(`p${at}`, hash);
  await close();
  return { DATABASE_URL: databaseUrl, TRUST_PROXY: '127.0.0.1', SIGN_UP: 'open' };
}

const people = 200;

const name = `${people} sign-ins at once do not disturb reads: each is answered 303, 403, or 503 with Retry-After`;

test.each(engines)(`on %s, ${name}`, async (engine) => {
  const server = await startServer({ env: await prepare(await emptyStore(engine), people) });
  const { get } = openClient(server.url, await server.firstKey(), 4);
  const ms: number[] = [];
  let over = false;
  const readers = sideBySide(4, async (at) => {
    for (let count = 0; !over; count++) {
      const begun = performance.now();
      // Different pages: some come from the response cache, others from the store.
      expect((await get(`/v1/pets?limit=${1 + ((count * 7 + at) % 100)}`)).status).toBe(200);
      ms.push(performance.now() - begun);
      await sleep(2);
    }
  });
  const counts = { 303: 0, 403: 0, 503: 0 };
  await sideBySide(people, async (at) => {
    const client = openFormClient(server.url, { 'x-forwarded-for': `10.0.0.${at}` });
    const form = { name: `p${at}`, password: at % 4 ? password : wrong };
    // Every fourth mistypes the password. Who gets 503 comes back.
    for (;;) {
      const { status, headers } = await client.post('/account/sign-in', form);
      counts[status as keyof typeof counts] += 1;
      expect(headers['retry-after']).toBe(status === 503 ? '1' : undefined);
      if (status !== 503) return;
      await sleep(1000);
    }
  });
  over = true;
  await readers;
  const p99 = percentile(ms, 99);
  expect(counts).toEqual({ 303: 150, 403: 50, 503: expect.any(Number) });
  // More than can be hashed at once have come.
  expect(counts[503]).toBeGreaterThan(0);
  // The quick size shares the machine with other tests. Hashing in the main thread would take all reads many seconds.
  expect(p99).toBeLessThan(tier(2500, 250));
});
