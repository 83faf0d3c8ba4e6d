/** Tests that durations go on when the wall clock steps, with real servers whose Date follows a file. */
import { writeFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { newSecret } from '../../../src/core/accounts.ts';
import { dayMs, hourMs, limits, minuteMs } from '../../../src/core/limits.ts';
import { temporaryFolder } from '../../support/app.ts';
import { openFormClient } from '../../support/form-client.ts';
import { startServer, tabby, withScript } from '../../support/process.ts';

/** Starts a server. `step` sets its wall clock this far from that of the machine. */
async function startWithClock(env: Record<string, string> = {}) {
  const file = `${temporaryFolder()}/step`;
  const step = (ms: number) => writeFileSync(file, String(ms));
  step(0);
  const script = withScript(`
    import { readFileSync } from 'node:fs';
    const Real = Date;
    const now = () => Real.now() + Number(readFileSync(${JSON.stringify(file)}));
    globalThis.Date = class Date extends Real {
      constructor(...given) { super(...(given.length === 0 ? [now()] : given)); }
      static now = now;
    };`);
  return { ...(await startServer({ env: { ...env, ...script } })), step };
}

/** How the clock steps, from the first request on. */
const steps: Record<string, number[]> = {
  'an hour back': [-hourMs],
  'ten minutes back': [-10 * minuteMs],
  'a day ahead': [dayMs],
  'a day ahead and back': [dayMs, 0],
};

test('RATE_LIMIT and the limit of rejected keys count on, and their minute ends when Retry-After says', async () => {
  async function count([what, given]: [string, number[]], junk: boolean) {
    const server = await startWithClock({ RATE_LIMIT: '5' });
    const key = junk ? newSecret(false).key : await server.firstKey();
    const ask = () => fetch(`${server.url}/v1/pets`, { headers: { authorization: `Bearer ${key}` } });
    const begun = performance.now();
    let served = 0;
    let answer = await ask();
    for (; answer.status !== 429; answer = await ask()) {
      const ms = given[served];
      if (ms !== undefined) server.step(ms);
      served += 1;
    }
    const seconds = Number(answer.headers.get('retry-after'));
    expect([what, served]).toEqual([what, junk ? limits.rejectedKeys : 5]);
    expect(seconds, what).toBeLessThanOrEqual(60);
    await sleep(seconds * 1000);
    expect([what, (await ask()).status]).toEqual([what, junk ? 401 : 200]);
    expect(performance.now() - begun, what).toBeGreaterThan(minuteMs);
  }
  await Promise.all(Object.entries(steps).flatMap((row) => [count(row, false), count(row, true)]));
});

test('failed attempts to sign in count on, and their window ends when Retry-After says', async () => {
  for (const [what, given] of Object.entries(steps)) {
    const server = await startWithClock();
    const attempt = () =>
      openFormClient(server.url).post('/account/sign-in', { name: 'ada', password: 'not the password' });
    let failed = 0;
    let answer = await attempt();
    for (; answer.status !== 429; answer = await attempt()) {
      const ms = given[failed];
      if (ms !== undefined) server.step(ms);
      failed += 1;
    }
    expect([what, failed]).toEqual([what, limits.failedAttempts]);
    expect(Number(answer.headers['retry-after']), what).toBeLessThanOrEqual(15 * 60);
  }
});

test('a clock that steps two days ahead and back forgets no Idempotency-Key', async () => {
  const server = await startWithClock();
  const add = async (key: string) => {
    const { status, json, headers } = await server.add(tabby, { 'idempotency-key': key });
    return [status, json.id, headers.get('idempotent-replayed')];
  };
  expect(await add('before')).toEqual([201, 1, null]);
  server.step(2 * dayMs);
  expect(await add('ahead')).toEqual([201, 2, null]);
  server.step(0);
  expect(await add('before')).toEqual([201, 1, 'true']);
  expect(await add('ahead')).toEqual([201, 2, 'true']);
});
