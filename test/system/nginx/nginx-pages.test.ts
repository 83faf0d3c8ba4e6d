/** Attacks on the account pages as deployed: who loads them in loops, or resets each request, takes little of the server's processor time from others. */
import { connect, constants } from 'node:http2';
import { setTimeout as sleep } from 'node:timers/promises';
import { beforeEach, expect, onTestFinished, test } from 'vitest';
import type { Account } from '../../../src/core/accounts.ts';
import { dayMs, limits } from '../../../src/core/limits.ts';
import { newToken } from '../../../src/core/people.ts';
import { sideBySide } from '../../support/client.ts';
import { name, needNginx, startNginx } from '../../support/nginx.ts';
import { startServer } from '../../support/process.ts';
import { addKey, makeStore } from '../../support/store-file.ts';

beforeEach(needNginx);

const attempts = 240;
/** Less than half of what a hundred lists with charts of 30 days took, which is what nginx lets through. */
const maxSeconds = 1.5;

/** A server behind nginx, and the session of ada, who has 50 keys that were used on 30 days. */
async function deploy() {
  const { token, hash } = newToken();
  const made = await makeStore(undefined, async ({ accounts, people }) => {
    const { id } = (await people.signUp('ada', 'hash')) as Account;
    await people.addSession(hash, id, 'hash');
    for (let key = 0; key < limits.activeKeys; key++) await addKey(accounts, 'ada');
    const keys = await accounts.listKeys('ada');
    for (let day = 29; day >= 0; day--) {
      const lastUsedAt = new Date(Date.now() - day * dayMs);
      const counts = { succeeded: 1000 + day, clientErrors: 20, rateLimited: 3, serverErrors: 1, deprecatedCalls: 2 };
      await accounts.recordUses(keys.map((key) => ({ id: key.id, lastUsedAt, ...counts })));
    }
  });
  const env = { ...made.env, BASE_URL: `https://${name}/v1`, TRUST_PROXY: '127.0.0.1' };
  const server = await startServer({ env });
  const { https, ca } = await startNginx(server.port);

  /** A browser at this address, over HTTP/2, that sends the cookie. Gets a page; resets the request after `resetMs`. */
  function open(localAddress: string, cookie = '') {
    const options = { ca, servername: name, localAddress };
    const browser = connect(`https://127.0.0.1:${https}`, options);
    onTestFinished(() => browser.destroy());
    return (path: string, resetMs?: number) =>
      new Promise<{ status?: number; retryAfter?: string }>((resolve, reject) => {
        const stream = browser.request({ ':path': path, ':authority': name, accept: 'text/html', cookie });
        let answer = {};
        stream.on('response', (head) => {
          answer = { status: head[':status'], retryAfter: head['retry-after'] };
        });
        stream.on('error', reject).on('close', () => resolve(answer));
        stream.resume();
        if (resetMs !== undefined) setTimeout(() => stream.close(constants.NGHTTP2_CANCEL), resetMs);
      });
  }
  /** The processor time of the server, when it has nothing left to do. */
  async function cpuSeconds() {
    for (let before = Number.NEGATIVE_INFINITY; ; await sleep(500)) {
      const now = Number(/^process_cpu_seconds_total (\S+)/m.exec(await server.metrics())?.[1]);
      if (now - before < 0.1) return now;
      before = now;
    }
  }
  return { open, cpuSeconds, session: `__Host-session=${token}` };
}

type Deployed = Awaited<ReturnType<typeof deploy>>;

/** Four loops of ada's list from one address and session. Resolves to the responses, and the processor time that the server took for them. */
async function attack({ open, cpuSeconds, session }: Deployed, resetMs?: number) {
  const before = await cpuSeconds();
  const get = open('127.0.5.1', session);
  const answers: Awaited<ReturnType<typeof get>>[] = [];
  await sideBySide(4, async () => {
    for (let count = 0; count < attempts / 4; count++) answers.push(await get('/account', resetMs));
  });
  return { answers, seconds: (await cpuSeconds()) - before };
}

test('four loops of a list of 50 keys get 429 beyond the limits, and take little of the processor', async () => {
  const deployed = await deploy();
  const { answers, seconds } = await attack(deployed);
  const refused = answers.filter(({ status }) => status === 429);
  expect(answers.filter(({ status }) => status === 200).length).toBeLessThanOrEqual(limits.pages);
  expect(refused.length).toBeGreaterThan(0);
  for (const { retryAfter } of refused) expect(Number(retryAfter)).toBeGreaterThan(0);
  expect(seconds).toBeLessThan(maxSeconds);
  expect((await deployed.open('127.0.5.2')('/docs')).status).toBe(200);
});

test('lists that are reset after 2 ms are not rendered, and 20 others get their pages meanwhile', async () => {
  const deployed = await deploy();
  const over = new AbortController();
  const seen: unknown[] = [];
  const others = sideBySide(4, async (at) => {
    const visits = Array.from(Array(5), (_, place) => deployed.open(`127.0.4.${1 + 5 * at + place}`));
    while (!over.signal.aborted)
      for (const visit of visits) {
        seen.push((await visit('/account/sign-in')).status);
        await sleep(20);
      }
  });
  const { seconds } = await attack(deployed, 2);
  over.abort();
  await others;
  expect(seen.filter((status) => status === 200).length / seen.length).toBeGreaterThan(0.95);
  expect(seconds).toBeLessThan(maxSeconds);
});
