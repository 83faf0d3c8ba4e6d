/** Tests that every complete request is answered: each route with each method, framing, type, credential, version and expectation. */
import { METHODS } from 'node:http';
import { connect } from 'node:net';
import { expect, test } from 'vitest';
import { newToken } from '../../../src/core/people.ts';
import { startApp } from '../../support/app.ts';
import { startServer } from '../../support/process.ts';
import { type RawAnswer, readAnswer } from '../../support/raw.ts';
import { emptyStore, engines, open } from '../../support/store.ts';

const withinMs = 4000;

interface Case {
  /** The whole request. */
  bytes: string;
  method: string;
  /** The statuses that it may get, if they matter. Other tests have the one of each operation and page. */
  statuses?: number[];
}

/** Sent when a case is answered, on the same connection. Only a response with Connection: close may leave it unanswered. */
const behind: Case = { bytes: 'GET /cats HTTP/1.1\r\nHost: localhost\r\n\r\n', method: 'GET', statuses: [404] };

const refused = [400, 401, 404, 405];
const methods: Record<string, number[]> = {
  GET: [200, 302, 303, 308, 501, ...refused],
  HEAD: [200, 302, 303, 308, 501, ...refused],
  POST: [201, 202, 303, 403, 415, ...refused],
  OPTIONS: [204, 400, 401, 404],
  PUT: refused,
  DELETE: refused,
  PATCH: refused,
};
const types = ['', 'application/json', 'application/x-www-form-urlencoded', 'text/plain'];
const bodies: Record<string, string> = {
  '/v1/pets': '{"name":"Biscuit","categoryId":7}',
  '/quickstart/messages': '{"message":"Hello"}',
};
const chunked = 'Transfer-Encoding: chunked\r\n\r\n';
const chunksOf = (body: string) => `1\r\n${body[0]}\r\n${(body.length - 1).toString(16)}\r\n${body.slice(1)}\r\n0\r\n`;
/** The end of the headers, and the body. */
const framings: ((body: string) => string)[] = [
  () => '\r\n',
  () => 'Content-Length: 0\r\n\r\n',
  (body) => `Content-Length: ${body.length}\r\n\r\n${body}`,
  () => `${chunked}0\r\n\r\n`,
  (body) => `${chunked}${chunksOf(body)}\r\n`,
  (body) => `${chunked}${chunksOf(body)}X-Trailer: a\r\n\r\n`,
];

/** Yields all cases, in lists of those that differ only in their framing. `credentials` resolves to the headers of an API key and of a session. */
async function* cases(routes: string[], credentials: (route: string) => Promise<string>): AsyncGenerator<Case[]> {
  let turn = 0;
  for (const route of routes) {
    turn += 1;
    for (const [method, statuses] of Object.entries(methods))
      for (const type of types)
        for (const known of [true, false]) {
          // The same with another version and expectation for the next route.
          turn += 1;
          const [isOld, expects] = [turn % 2 === 0, turn % 4 > 1];
          // From many networks, by many accounts: each may have some account pages in a minute.
          const from = `X-Forwarded-For: 10.0.${turn >> 8}.${turn & 255}\r\n`;
          const line = `${method} ${route.replace(/:\w+/, '1')} HTTP/${isOld ? '1.0' : '1.1'}\r\nHost: localhost\r\n${from}`;
          const more = `${type && `Content-Type: ${type}\r\n`}${known ? await credentials(route) : ''}`;
          const connection = `${expects ? 'Expect: 100-continue\r\n' : ''}${isOld ? 'Connection: keep-alive\r\n' : ''}`;
          const needsKey = !known && route in bodies;
          yield framings.map((write) => {
            const end = write(bodies[route] ?? 'name=x');
            const bytes = `${line}Sec-Fetch-Site: same-origin\r\n${more}${connection}${end}`;
            // RFC 9112, section 6.1.
            if (isOld && end.startsWith(chunked)) return { bytes, method, statuses: [400] };
            return { bytes, method, statuses: needsKey ? [401] : statuses };
          });
        }
  }
}

/** Sends cases one after the other, on one connection while it stays open. Resolves to a sentence for each fault. */
async function findFaults(port: number, list: Case[]) {
  const faults: string[] = [];
  const left = [...list];
  while (left.length > 0) {
    const send = () => void socket.write(left[0]?.bytes ?? '');
    const socket = connect(port, '127.0.0.1', send);
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
        if (sent?.statuses?.includes(status) === false) faults.push(`${status}: ${sent.bytes}`);
        if (sent && left.length > 0) send();
        next = readAnswer(bytes, left[0]?.method === 'HEAD');
      }
      if (left.length === 0) socket.end();
    });
    // The server may reset a connection that it closes.
    let error: Error | undefined;
    socket.on('error', (reason) => {
      error = reason;
    });
    await new Promise((closed) => socket.on('close', closed));
    clearTimeout(deadline);
    if (left.length > 0 && last?.headers.connection !== 'close')
      return [...faults, `${error?.message ?? 'the connection closed'}: ${left[0]?.bytes}`];
    if (left[0] === behind) left.shift();
  }
  return faults;
}

test.each(engines)('on %s, every request is answered within 4 s, and no place stays taken', async (engine) => {
  const routes = new Set(['/cats', '/v1/cats', '/quickstart/cats', '/docs/cats']);
  await startApp({ watch: async (app) => void app.addHook('onRoute', ({ url }) => void routes.add(url)) });
  expect([...routes]).toEqual(expect.arrayContaining([...Object.keys(bodies), '/v1/pets/:petId', '/account/keys']));
  const databaseUrl = await emptyStore(engine);
  const server = await startServer({ env: { DATABASE_URL: databaseUrl, SIGN_UP: 'open', TRUST_PROXY: '127.0.0.1' } });
  const { people } = await open(databaseUrl);
  async function enter(name: string) {
    const { token, hash } = newToken();
    const account = await people.signUp(name, 'no hash');
    if (typeof account === 'string' || !(await people.addSession(hash, account.id, 'no hash'))) throw new Error(name);
    return `Authorization: Bearer ${key}\r\nCookie: session-80=${token}\r\n`;
  }
  const key = await server.firstKey();
  const own = await enter('ada');
  let others = 0;
  const all = cases([...routes], async (route) => (route.startsWith('/account') ? enter(`other ${++others}`) : own));
  const faults: string[] = [];
  async function work() {
    for await (const list of all) {
      const both = list.flatMap((each) => [each, behind]);
      faults.push(...(await findFaults(server.port, both)));
    }
  }
  await Promise.all(Array.from(Array(8), work));
  expect(faults.slice(0, 20)).toEqual([]);

  // Every method that the parser knows, and errors that do not depend on the route: clients choose both, and must not make series.
  const long = `?${'x'.repeat(8200)}`;
  const targets = [...routes].flatMap((route) => [route, route + long]);
  const rest = METHODS.filter((method) => method !== 'CONNECT').flatMap((method) =>
    targets.map((target) => ({ method, bytes: `${method} ${target} HTTP/1.1\r\nHost: localhost\r\n\r\n` })),
  );
  for (const route of routes)
    for (const method of Object.keys(methods))
      rest.push({
        method,
        bytes: `${method} ${route} HTTP/1.1\r\nHost: localhost\r\nExpect: a-pony\r\nConnection: close\r\n\r\n`,
      });
  expect(await findFaults(server.port, rest)).toEqual([]);
  const series = (await server.metrics()).match(/^http_request_duration_seconds_count/gm) ?? [];
  expect(series.length).toBeLessThanOrEqual(120);

  const taken = async () => (await server.metrics()).match(/^animal_store_(in_flight|connections) .*/gm);
  await expect.poll(taken).toEqual(['animal_store_connections 0', 'animal_store_in_flight 0']);
  const stopped = performance.now();
  await server.stop();
  expect(performance.now() - stopped).toBeLessThan(3000);
});
