/** Tests that every complete request is answered, and with the status that support/every-request.ts has for it. */
import { once } from 'node:events';
import { connect } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { newToken } from '../../../src/core/people.ts';
import { startApp } from '../../support/app.ts';
import { type Case, cases, hiddenRoutes, routes } from '../../support/every-request.ts';
import { startServer } from '../../support/process.ts';
import { type RawAnswer, readAnswer } from '../../support/raw.ts';
import { emptyStore, open } from '../../support/store.ts';
import { figure, patientMs } from '../../support/tier.ts';

const withinMs = 4000;
let slowestMs = 0;

/** Sent behind every case, on the same connection. Only a response with Connection: close may leave it unanswered. */
const behind: Case = {
  name: 'GET behind',
  bytes: 'GET /cats HTTP/1.1\r\nHost: localhost\r\n\r\n',
  method: 'GET',
  status: 404,
};

/** Sends each case with a GET behind it, all at once on one connection. Resolves to a sentence for each fault. */
async function findFaults(port: number, list: Case[]): Promise<string[]> {
  const faults: string[] = [];
  const left = list.flatMap((each) => [each, behind]);
  while (left.length > 0) {
    const socket = connect(port, '127.0.0.1', () => socket.write(left.map(({ bytes }) => bytes).join('')));
    const begun = performance.now();
    const deadline = setTimeout(() => socket.destroy(new Error('unanswered or not closed in time')), withinMs);
    let bytes: Buffer = Buffer.alloc(0);
    let last: RawAnswer | undefined;
    socket.on('data', (part: Buffer) => {
      bytes = Buffer.concat([bytes, part]);
      for (let next = readAnswer(bytes, left[0]?.method === 'HEAD'); next; ) {
        bytes = next.rest;
        last = next.answer;
        const { status } = last;
        const sent = status < 200 ? undefined : left.shift();
        if (sent && status !== sent.status) faults.push(`${sent.name}: ${status}, not ${sent.status}`);
        next = readAnswer(bytes, left[0]?.method === 'HEAD');
      }
      slowestMs = Math.max(slowestMs, performance.now() - begun);
      if (left.length === 0) socket.end();
    });
    // The server may reset a connection that it closes before it has read all requests.
    let error: Error | undefined;
    socket.on('error', (reason) => {
      error = reason;
    });
    await new Promise((closed) => socket.on('close', closed));
    clearTimeout(deadline);
    if (left.length > 0 && last?.headers.connection !== 'close')
      return [...faults, `${left[0]?.name}: ${error?.message ?? 'the connection closed'}`];
    if (left[0] === behind) left.shift();
  }
  return faults;
}

test('the table has every route', async () => {
  const registered = new Set<string>();
  await startApp({ watch: async (app) => void app.addHook('onRoute', ({ url }) => void registered.add(url)) });
  expect([...registered].sort()).toEqual([...Object.keys(routes), ...hiddenRoutes].sort());
});

test('every request gets its status within 4 s, no place stays taken, and the server stops within 3 s', {
  timeout: patientMs,
}, async () => {
  const databaseUrl = await emptyStore();
  const server = await startServer({ env: { DATABASE_URL: databaseUrl, SIGN_UP: 'open' } });
  const { people } = await open(databaseUrl);
  async function enter(name: string): Promise<string> {
    const { token, hash } = newToken();
    const account = await people.signUp(name, 'no hash');
    if (typeof account === 'string' || !(await people.addSession(hash, account.id, 'no hash'))) throw new Error(name);
    return `Authorization: Bearer ${key}\r\nCookie: session=${token}\r\n`;
  }
  const key = await server.firstKey();
  const own = await enter('ada');
  const invitation = newToken();
  await people.addLink(invitation.hash, 'invitation', null);

  const begun = performance.now();
  let leavers = 0;
  const all = cases(async (route) => (route.includes('sign-out') ? enter(`leaver ${++leavers}`) : own), {
    ':id': '1',
    ':token': invitation.token,
  });
  const faults: string[] = [];
  let count = 0;
  async function work(): Promise<void> {
    for await (const list of all) {
      count += list.length;
      faults.push(...(await findFaults(server.port, list)));
    }
  }
  await Promise.all(Array.from({ length: 8 }, work));
  const seconds = (performance.now() - begun) / 1000;
  figure(`${count} requests in ${seconds.toFixed(1)} s, the slowest ${slowestMs.toFixed(0)} ms`);
  expect(faults.slice(0, 20)).toEqual([]);

  const taken = async () => {
    const text = await (await fetch(`${server.opsUrl()}/metrics`)).text();
    return [...text.matchAll(/^animal_store_held\{.* (\d+)$/gm)].map(([, value]) => value).join(' ');
  };
  await expect.poll(taken, { timeout: 10_000 }).toBe('0 0 0 0 0 0');
  const idle = connect(server.port, '127.0.0.1', () => idle.write(behind.bytes));
  onTestFinished(() => void idle.destroy());
  await once(idle, 'data');
  const stopped = performance.now();
  expect((await server.end('SIGTERM')).code).toBe(0);
  expect(performance.now() - stopped).toBeLessThan(3000);
});
