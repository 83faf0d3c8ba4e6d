/** Tests the files of nginx under attack: a client with many connections can only slow itself, and a full kind of slots leaves the others alone. */
import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import { connect as connectHttp2 } from 'node:http2';
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { type NginxOptions, name, needNginx, startNginx } from '../../support/nginx.ts';
import { listen } from '../../support/raw.ts';

beforeEach(needNginx);

type Nginx = Awaited<ReturnType<typeof startNginx>>;

/** Starts nginx in front of a server that responds in this way. */
async function startBefore(listener: RequestListener, options: NginxOptions = {}) {
  const upstream = createServer(listener);
  onTestFinished(() => upstream.closeAllConnections());
  return startNginx(await listen(upstream), options);
}

/** Starts nginx in front of a server that holds the requests that `isHeld`, until `release` is called. */
async function startHolding(isHeld: (target: string) => boolean, options: NginxOptions = {}) {
  const gate = Promise.withResolvers<void>();
  let held = 0;
  const nginx = await startBefore(async ({ method, url }, response) => {
    if (isHeld(`${method} ${url}`)) {
      held += 1;
      await gate.promise;
    }
    response.end();
  }, options);
  return { ...nginx, held: () => held, release: () => gate.resolve() };
}

interface Visit {
  target?: string;
  from?: string;
  headers?: string;
}

/** Sends a request; resolves to its response. */
const visit = ({ raw }: Nginx, { target = 'GET /v1/pets', from = '127.0.0.1', headers = '' }: Visit) =>
  raw(`${target} HTTP/1.1\r\nHost: ${name}\r\n${headers}Connection: close\r\n\r\n`, from);

const rejected = /^HTTP\/1\.1 429 [\s\S]*\r\nRetry-After: 1\r\n[\s\S]*"code":"rate_limited"/;
const refused = /^HTTP\/1\.1 503 [\s\S]*\r\nRetry-After: 1\r\n[\s\S]*"code":"service_unavailable"/;
const served = /^HTTP\/1\.1 200 /;

const keyOf = (at: number) => `ast_live_${String(at).padStart(36, 'k')}`;
const withKey = (at: number, scheme = 'Bearer ') =>
  `Authorization:${scheme}${keyOf(at)}${scheme.startsWith('\t') ? '\t ' : ''}\r\n`;
const schemes = [' Bearer ', ' bearer  ', 'BEARER\t', '\tbEaReR \t '];
const session = 's'.repeat(43);
/** The cookies of one session, as the server reads them. `other`: another token each time, which must not count. */
const cookies: ((other: string) => string)[] = [
  (other) => `session=${other}; session-x=${other}; __Host-session=${session}`,
  (other) => `__Host-session=${session}; __Host-session=${other}`,
  (other) => `a;x__Host-session=${other};\t__Host-session = ${session} ;a=b`,
  (other) => `__Host-sessio=${other};__host-session=${other};__Host-session\t=${session}`,
];
const cookieOf = (at: number) => cookies[at % cookies.length]?.(String(at).padEnd(43, 'o'));

const realAddress = { inHttp: 'set_real_ip_from 127.0.0.1; real_ip_header X-Address;' };

describe('has its own share alone:', () => {
  test.each<[who: string, most: number, visits: (at: number) => Visit, other: Visit, options?: NginxOptions]>([
    [
      'a /64 network with zeros',
      30,
      (at) => ({ headers: `X-Address: 2001:db8::${at + 1}:0:0:1\r\n${withKey(at)}` }),
      { headers: 'X-Address: 2001:db8:0:1::1\r\n' },
      realAddress,
    ],
    [
      'an IPv4 address on an IPv6 socket',
      30,
      (at) => ({ headers: `X-Address: ::ffff:192.0.2.1\r\n${withKey(at)}` }),
      { headers: 'X-Address: ::ffff:192.0.2.2\r\n' },
      realAddress,
    ],
    ['an address without a key', 20, () => ({}), { headers: withKey(0) }],
    [
      'an address with what is no key',
      20,
      (at) => ({ headers: `Authorization: Bearer ${keyOf(at)}${at % 2 ? 'x' : '-'}\r\n` }),
      { headers: withKey(0) },
    ],
    ['an address with many keys', 30, (at) => ({ headers: withKey(at) }), { from: '127.0.0.2', headers: withKey(0) }],
    [
      'a key from many addresses, in any spelling',
      30,
      (at) => ({ from: `127.0.1.${at + 1}`, headers: withKey(0, schemes[at % schemes.length]) }),
      { from: '127.0.1.1', headers: withKey(1) },
    ],
    [
      'a session from many addresses, in any cookie',
      4,
      (at) => ({
        from: `127.0.1.${at + 1}`,
        target: 'GET /account',
        headers: `Cookie: ${cookieOf(at)}\r\n`,
      }),
      { from: '127.0.1.1', target: 'GET /account', headers: `Cookie: __Host-session=t${session.slice(1)}\r\n` },
    ],
    [
      'an address on the account pages',
      6,
      (at) => ({ target: `POST /account/${at}`, headers: 'Content-Length: 0\r\n' }),
      { target: 'GET /docs' },
    ],
  ])('%s', async (_who, most, visits, other, options) => {
    const nginx = await startHolding(() => true, options);
    const held = Array.from(Array(most), (_, at) => visit(nginx, visits(at)));
    await expect.poll(nginx.held).toBe(most);
    expect(await visit(nginx, visits(most))).toMatch(rejected);
    held.push(visit(nginx, other));
    await expect.poll(nginx.held).toBe(most + 1);
    nginx.release();
    for (const response of await Promise.all(held)) expect(response).toMatch(served);
  });
});

describe('when all slots of a kind are taken, the rest gets 503 at once, and the other kinds are served:', () => {
  /** `ofAnAddress`: so many that no limit of its own is met. */
  const kinds: [target: string, slots: number, ofAnAddress: number][] = [
    ['GET /v1/pets', 256, 20],
    ['POST /v1/pets', 256, 20],
    ['POST /account/sign-in', 12, 6],
  ];

  test.each(kinds)('%s', async (target, slots, each) => {
    const nginx = await startHolding((sent) => sent === target);
    const excess = 10;
    const headers = 'Content-Length: 0\r\n';
    const crowd = Array.from(Array(slots + excess), (_, at) =>
      visit(nginx, { target, headers, from: `127.0.1.${1 + Math.floor(at / each)}` }),
    );
    const early: string[] = [];
    for (const response of crowd) void response.then((received) => early.push(received));
    // They are answered while the others are held.
    await expect.poll(() => early.length).toBe(excess);
    for (const response of early) expect(response).toMatch(refused);
    for (const [other] of kinds.filter(([sent]) => sent !== target))
      expect(await visit(nginx, { target: other, headers })).toMatch(served);
    expect(nginx.held()).toBe(slots);
    nginx.release();
    expect((await Promise.all(crowd)).filter((response) => served.test(response))).toHaveLength(slots);
    expect(nginx.accessLog()).toContain(`"${target} HTTP/1.1" 503 `);
    expect(nginx.errorLog()).toBe('');
  });
});

test('heads and bodies that pause never reach the server, and their connections close', async () => {
  let reached = 0;
  const nginx = await startBefore((request, response) => {
    reached += 1;
    request.resume().on('end', () => response.end());
  });
  const begin = (at: number, bytes: string) =>
    nginx.raw(`POST /v1/pets HTTP/1.1\r\nHost: ${name}\r\n${bytes}`, `127.0.1.${1 + (at % 30)}`).catch(() => '');
  const slow = Array.from(Array(300), (_, at) => begin(at, at % 2 ? 'X-' : 'Content-Length: 9\r\n\r\n{'));
  for (const target of ['GET /v1/pets', 'POST /v1/pets'])
    expect(await visit(nginx, { target, headers: 'Content-Length: 0\r\n' })).toMatch(served);
  expect(new Set(await Promise.all(slow))).toEqual(new Set(['']));
  expect(reached).toBe(2);
});

describe('without a key, an address leaves a neighbour behind it that has one alone:', () => {
  /** Each attack resolves when nginx has its requests. */
  test.each<[attack: string, begin: (nginx: Nginx) => Promise<void>]>([
    [
      '30 bodies that take their time',
      async ({ open }) => {
        const post = `POST /v1/pets HTTP/1.1\r\nHost: ${name}\r\nContent-Length: 999\r\n\r\n{`;
        const sockets = Array.from(Array(30), () => open().on('error', () => {}));
        const timer = setInterval(() => sockets.map((socket) => socket.write(' ')), 1000);
        onTestFinished(() => {
          clearInterval(timer);
          for (const socket of sockets) socket.destroy();
        });
        for (const socket of sockets) socket.write(post);
        await expect.poll(() => sockets.filter(({ bytesRead }) => bytesRead > 0).length).toBe(10);
      },
    ],
    [
      '32 streams of HTTP/2 that read nothing',
      async ({ https, ca }) => {
        const settings = { initialWindowSize: 0 };
        const session = connectHttp2(`https://127.0.0.1:${https}`, { ca, servername: name, settings });
        onTestFinished(() => session.destroy());
        for (let at = 0; at < 32; at++) {
          const stream = session.request({ ':path': '/v1/pets', ':authority': name });
          // Without a listener, Node would cancel it.
          stream.on('response', () => {}).on('error', () => {});
        }
        await once(session, 'connect');
        await new Promise((resolve) => session.ping(resolve));
      },
    ],
  ])('%s', async (_attack, begin) => {
    const nginx = await startBefore((_request, response) => void response.end('{}'));
    await begin(nginx);
    expect(await visit(nginx, {})).toMatch(rejected);
    for (const target of ['GET /v1/pets', 'POST /v1/pets', 'GET /account'])
      expect(await visit(nginx, { target, headers: `${withKey(0)}Content-Length: 0\r\n` })).toMatch(served);
    expect(await visit(nginx, {})).toMatch(rejected);
  });
});

test('clients that read nothing of a page of 600 KB hold no slot', async () => {
  const page = Buffer.alloc(600_000, 'x');
  // With a larger buffer, the kernel would take the page for its client.
  const nginx = await startBefore((_request, response) => void response.end(page), { sndbuf: '16k' });
  const begin = async (at: number) => {
    const socket = nginx.open(`127.0.1.${1 + (at % 10)}`);
    onTestFinished(() => void socket.destroy());
    socket.on('error', () => {});
    socket.write(`GET /v1/pets HTTP/1.1\r\nHost: ${name}\r\n${withKey(at % 10)}\r\n`);
    // At once: on a busy machine, the whole page would be read before the next turn.
    const head = await new Promise((resolve) => {
      socket.once('data', (part) => {
        socket.pause();
        resolve(part);
      });
    });
    return String(head);
  };
  // More than there are slots: 30 of each of ten addresses, which may have no more.
  for (const expected of [served, served, served, /^HTTP\/1\.1 429 /])
    for (const head of await Promise.all(Array.from(Array(100), (_, at) => begin(at)))) expect(head).toMatch(expected);
  expect((await visit(nginx, {})).length).toBeGreaterThan(page.length);
});

test('no secret is written, and no refusal is a line in the error log', async () => {
  const nginx = await startHolding((target) => target.endsWith('/held'));
  const secret = 'k'.repeat(36);
  const headers = [
    `Authorization: Bearer ast_live_${secret}\r\n`,
    `Authorization: Bearer ast_live_${secret}${'x'.repeat(300)}\r\n`,
    `Cookie: session=${secret}; session-3000=${secret}${'x'.repeat(300)}\r\n`,
  ];
  const hold = Array.from(Array(30), (_, at) => visit(nginx, { target: 'GET /held', headers: withKey(at) }));
  await expect.poll(nginx.held).toBe(30);
  for (const header of headers)
    for (const from of ['127.0.0.1', '127.0.0.2'])
      expect(await visit(nginx, { from, headers: header })).toMatch(from === '127.0.0.1' ? rejected : served);
  nginx.release();
  await Promise.all(hold);
  await expect.poll(() => nginx.accessLog().split('\n').length - 1).toBe(36);
  expect(nginx.written()).not.toContain(secret);
  expect(nginx.errorLog()).toBe('');
});

test.each([
  ['with keys', 500, 1000, '/', withKey(0)],
  ['without a key', 300, 600, '/', ''],
  ['for account pages', 10, 60, '/account', ''],
])(
  'an address %s may send %i requests a second, after the first %i, and others theirs',
  async (_what, rate, burst, path, headers) => {
    const { raw } = await startBefore((_request, response) => void response.end());
    const get = `GET ${path} HTTP/1.1\r\nHost: ${name}\r\n${headers}\r\n`;
    const last = get.replace('\r\n\r\n', '\r\nConnection: close\r\n\r\n');
    // A connection serves 1,000 requests.
    const ask = () => raw(get.repeat(900) + last, '127.0.0.9');
    const begun = performance.now();
    const answers = (await Promise.all([ask(), ask(), ask(), ask()])).join('');
    const allowed = burst + 1 + ((performance.now() - begun) / 1000) * rate;
    const accepted = answers.split('HTTP/1.1 200 ').length - 1;
    expect(accepted).toBeGreaterThanOrEqual(burst);
    expect(accepted).toBeLessThanOrEqual(allowed);
    expect(answers.slice(answers.indexOf('HTTP/1.1 429 '))).toMatch(rejected);
    expect(await raw(last, '127.0.0.8')).toMatch(served);
    // A neighbour with a key, behind an address that sends no more of those without one.
    if (!headers)
      expect(await raw(last.replace(/ .*\r\n/, ` / HTTP/1.1\r\n${withKey(0)}`), '127.0.0.9')).toMatch(served);
  },
);
