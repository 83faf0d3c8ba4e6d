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

/** Sends all requests at once, on one connection. Resolves to their final responses: all, or those up to one with Connection: close. */
function converse(port: number, sent: Case[]): Promise<RawAnswer[]> {
  const { promise, resolve, reject } = Promise.withResolvers<RawAnswer[]>();
  const answers: RawAnswer[] = [];
  const isClosed = () => answers.at(-1)?.headers.connection === 'close';
  const begun = performance.now();
  let rest: Buffer = Buffer.alloc(0);
  const socket = connect(port, '127.0.0.1', () => socket.write(sent.map(({ bytes }) => bytes).join('')));
  const deadline = setTimeout(() => socket.destroy(new Error('unanswered or not closed in time')), withinMs);
  const readNext = () => readAnswer(rest, sent[answers.length]?.method === 'HEAD');
  socket.on('data', (bytes: Buffer) => {
    rest = Buffer.concat([rest, bytes]);
    for (let next = readNext(); next; next = readNext()) {
      if (next.answer.status >= 200) answers.push(next.answer);
      rest = next.rest;
    }
    slowestMs = Math.max(slowestMs, performance.now() - begun);
    if (answers.length === sent.length && !isClosed()) socket.end();
  });
  // The server may reset a connection that it closes before it has read all requests.
  socket.on('error', (error) => !isClosed() && reject(new Error(`${sent[answers.length]?.name}: ${error.message}`)));
  socket.on('close', () => {
    clearTimeout(deadline);
    if (answers.length === sent.length || isClosed()) resolve(answers);
    else reject(new Error(`${sent[answers.length]?.name}: the connection closed`));
  });
  return promise;
}

/** Sends the cases of a list, each with a GET behind it. Resolves to a sentence for each wrong status. */
async function findFaults(port: number, list: Case[]): Promise<string[]> {
  const faults: string[] = [];
  for (let left = list.flatMap((each) => [each, behind]); left.length > 0; ) {
    const answers = await converse(port, left);
    for (const { status } of answers) {
      const sent = left.shift() as Case;
      if (status !== sent.status) faults.push(`${sent.name}: ${status}, not ${sent.status}`);
    }
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
    const held = [...text.matchAll(/^animal_store_held\{what="(\w+)"\} (\d+)$/gm)];
    return held.map(([, what, value]) => `${what} ${value}`).sort();
  };
  await expect
    .poll(taken, { timeout: 10_000 })
    .toEqual(['bodies 0', 'connections 0', 'pipelined 0', 'requests 0', 'unread_bytes 0', 'work 0']);
  const idle = connect(server.port, '127.0.0.1', () => idle.write(behind.bytes));
  onTestFinished(() => void idle.destroy());
  await once(idle, 'data');
  const stopped = performance.now();
  expect((await server.end('SIGTERM')).code).toBe(0);
  expect(performance.now() - stopped).toBeLessThan(3000);
});
