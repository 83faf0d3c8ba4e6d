/** Tests the files of nginx with a real nginx and real servers: what it forwards, what it refuses itself, and what it logs. */
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { connect as connectHttp2 } from 'node:http2';
import { Agent, request } from 'undici';
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { newSecret } from '../../../src/core/accounts.ts';
import { type ErrorCode, errorTable } from '../../../src/core/errors.ts';
import { newToken } from '../../../src/core/people.ts';
import type { Answer } from '../../support/documented.ts';
import {
  type NginxOptions,
  name,
  needNginx,
  startContained,
  startNginx,
  startNginxAlone,
} from '../../support/nginx.ts';
import { startServer } from '../../support/process.ts';
import { listen } from '../../support/raw.ts';

beforeEach(needNginx);

/** Checks that nginx itself has refused the request, with an Error body. */
function expectError({ status, headers, text }: Answer, code: ErrorCode) {
  const [expected, message] = errorTable[code];
  expect([status, JSON.parse(text)]).toEqual([expected, { code, message, status: expected }]);
  expect(headers).toMatchObject({
    'content-type': 'application/json',
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
    'x-request-id': expect.stringMatching(/^[0-9a-f]{32}$/),
    'strict-transport-security': 'max-age=31536000',
  });
}

async function startBehindNginx(options: NginxOptions = {}) {
  const server = await startServer({ env: { BASE_URL: `https://${name}/v1`, TRUST_PROXY: '127.0.0.1' } });
  const nginx = await startNginx(server.port, options);
  const authorization = `Bearer ${await server.firstKey()}`;
  return { server, ...nginx, authorization };
}

test("a request through nginx is forwarded unchanged, with the client's real address", async () => {
  const { call, authorization, server } = await startBehindNginx();
  for (const target of ['/v1//pets?limit=%31', '/v1/pets/%2e%2e/pets']) {
    const direct = await fetch(server.url + target, { headers: { authorization } });
    const { status, text } = await call('GET', target, { authorization });
    expect([target, status, text]).toEqual([target, direct.status, await direct.text()]);
  }
  const pet = JSON.stringify({ name: 'x'.repeat(1000), categoryId: 7 });
  for (let added = 0; added < 20; added++)
    expect((await call('POST', '/v1/pets', { authorization, 'content-type': 'application/json' }, pet)).status).toBe(
      201,
    );
  const page = await call('GET', '/v1/pets', { authorization, 'accept-encoding': 'gzip' });
  expect([page.headers['content-encoding'], page.text.length > 20_000]).toEqual([undefined, true]);
  for (const path of ['/livez', '/readyz', '/metrics']) expect((await call('GET', path)).status).toBe(404);
  expect((await call('GET', '/v1/pets', { 'x-forwarded-for': '192.0.2.1' })).status).toBe(401);
  await server.seen('stdout', /"status":401,.*"address":"127\.0\.0\.1"/);
});

describe('nginx sees what the server sees:', () => {
  /** Lets nginx write, for each request that `observe` sends, what `text` has. */
  async function startObserved(text: string) {
    const nginx = await startBehindNginx({ inHttp: `log_format seen '$http_x_at ${text}'; access_log seen.log seen;` });
    let at = 0;
    const observe = async (target: string, more = '') => {
      at += 1;
      const headers = `Host: ${name}\r\nX-At: ${at}\r\nAccept: text/html\r\nContent-Length: 0\r\nConnection: close\r\n`;
      const answer = await nginx.raw(`${target} HTTP/1.1\r\n${headers}${more}\r\n`);
      const line = () => new RegExp(`^${at} (.*)$`, 'm').exec(readFileSync(`${nginx.folder}/seen.log`, 'utf8'));
      await expect.poll(line).not.toBe(null);
      return { answer, seen: line()?.[1] };
    };
    return { ...nginx, observe };
  }

  test('all that it serves as an account page takes the slots of pages, however the path is written', async () => {
    const { observe } = await startObserved('$proxy_host');
    const hidden = 'keys/a%2f..%2f..%2f..%2fx';
    const served = [
      'GET /account',
      'HEAD /account?x=/v1/pets',
      'M-SEARCH /account',
      'OPTIONS /account',
      'GET /account/unknown',
      'GET /%61ccount',
      'GET /%61%63%63%6F%75%6e%74/sign-in',
      'POST /accoun%74/sign-in',
      `GET http://${name}/account/sign-in`,
      `GET https://${name}/%61ccount/${hidden}`,
      'GET /account#/v1',
      'GET /account/sign-in#/../../v1/pets',
      'GET /%61ccount#',
      `GET /account/${hidden}`,
      `POST /account/${hidden}/rotate`,
      `POST /%61ccount/${hidden}/rotate`,
      `POST /%61ccount/${hidden.replace('x', '%0a')}/rotate`,
      `POST /accoun%74/${hidden.replace('x', 'v1%20')}`,
      'GET /account/x/../../v1/pets',
      'GET /account/%2e%2e/v1/pets',
      'POST /account/../v1/pets',
    ];
    const writes = ['POST /v1/pets', 'POST /%761/pets?/account', 'POST /quickstart/messages', 'POST /accounts'];
    const reads = [
      'GET /',
      'GET /docs',
      'GET /v1/pets?x=/account',
      'GET /v1/pets#/account',
      `GET http://${name}?/account`,
      'GET /accounts',
      'GET /account;x',
      'GET /ACCOUNT',
      'GET /%41ccount',
      'GET /account\\x',
    ];
    // nginx takes them for account pages. The server has nothing there, so nobody misses a slot.
    const nothing = [
      'GET //account',
      'GET /./account',
      'GET /v1/../account',
      'GET /%2faccount',
      'GET /account%2fkeys',
      'GET /v1/pets/..%2f..%2faccount',
      'GET /account%0a',
      'GET /account/%ff',
      'GET /account%3fx',
      'GET /account%23',
      'GET /%2561ccount',
    ];
    for (const [targets, kind, isPage] of [
      [served, 'pages', true],
      [writes, 'writes', false],
      [reads, 'reads', false],
      [nothing, 'pages', false],
    ] as const)
      for (const target of targets) {
        const { answer, seen } = await observe(target);
        const found = [answer.includes('cross-origin-resource-policy: same-origin'), seen];
        expect.soft(found, target).toEqual([isPage, `animal_store_production_${kind}`]);
        if (kind === 'pages' && !isPage) expect.soft(answer, target).toMatch(/^HTTP\/1\.1 40[014] /);
      }
  });

  test('the session is the one that it reads', async () => {
    const { observe, call } = await startObserved('$animal_store_session');
    const headers = { origin: `https://${name}`, 'content-type': 'application/x-www-form-urlencoded' };
    const { headers: made } = await call(
      'POST',
      '/account/sign-up',
      headers,
      'name=zoo&password=seven+otters+sing+at+noon',
    );
    const [, token = ''] = /^__Host-session=([\w-]{43});/.exec(`${made['set-cookie']}`) ?? [];
    expect(token).not.toBe('');
    const other = newToken().token;
    const cookies: [isRead: boolean, cookie: string][] = [
      [true, `__Host-session=${token}`],
      [true, `session=${other}; session-443=${other}; session-x=${other};a; __Host-session\t= ${token} ;b=`],
      [true, `__Host-session=${token}; __Host-session=${other}`],
      [true, `x__Host-session=${other}\r\nCookie: __host-session=${other}\r\nCookie: __Host-session=${token}`],
      [false, `__Host-session=${other}; __Host-session=${token}`],
      [false, `session=${token}; __Host-session-443=${token}`],
      [false, `__Host-session="${token}"`],
      [false, `__Host-session=${token}=`],
      [false, `x=__Host-session=${token}`],
    ];
    for (const [isRead, cookie] of cookies) {
      const { answer, seen } = await observe('GET /account', `Cookie: ${cookie}\r\n`);
      expect([cookie, answer.slice(9, 12), seen === token]).toEqual([cookie, isRead ? '200' : '303', isRead]);
    }
  });
});

describe('nginx itself responds with an Error body', () => {
  test('above its limits, to a method that is not allowed, to its internal path, and while the server is down', async () => {
    const { call, raw } = await startNginxAlone();
    expectError(await call('POST', '/v1/pets', {}, 'x'.repeat(140_000)), 'payload_too_large');
    expectError(await call('GET', `/v1/pets?x=${'y'.repeat(17_000)}`), 'uri_too_long');
    expectError(await call('GET', '/v1/pets', { cookie: 'x'.repeat(17_000) }), 'headers_too_large');
    expectError(await call('GET', '/animal-store-error'), 'route_not_found');
    const origin = `https://app.${name}`;
    const down = await call('GET', '/v1/pets', { origin });
    expectError(down, 'service_unavailable');
    expect(down.headers['access-control-allow-origin']).toBe(origin);
    const other = await call('GET', '/v1/pets', { origin: 'https://other.example.com' });
    expect(other.headers['access-control-allow-origin']).toBeUndefined();
    expect(down.headers['retry-after']).toBe('1');
    const badRequest = /^HTTP\/1\.1 400 [\s\S]*{"code":"bad_request","message":"[^"]*","status":400}$/;
    for (const [bytes, answer] of [
      [
        `TRACE /v1/pets HTTP/1.1\r\nHost: ${name}\r\nConnection: close\r\n\r\n`,
        /^HTTP\/1\.1 405 [\s\S]*\r\nAllow: GET, HEAD, POST, OPTIONS\r\n[\s\S]*"code":"method_not_allowed"/,
      ],
      ['nonsense\r\n\r\n', badRequest],
      ['GET /v1/pets HTTP/1.1\r\n\r\n', badRequest],
      ['GET /v1/pets HTTP/1.1\r\nHost: other.example.com\r\nConnection: close\r\n\r\n', badRequest],
      [`GET / HTTP/1.1\r\nHost: ${name}\r\nTransfer-Encoding: x\r\n\r\n`, badRequest],
    ] as const)
      expect(await raw(bytes), bytes).toMatch(answer);
  });

  test('to a request without TLS: 400, not a redirect', async () => {
    const { http, https } = await startNginxAlone();
    for (const [port, message] of [
      [http, 'Use https.'],
      [https, expect.any(String)],
    ] as const) {
      const { statusCode, body } = await request(`http://127.0.0.1:${port}/v1/pets`, { headers: { host: name } });
      expect([statusCode, await body.json()]).toEqual([400, { code: 'bad_request', message, status: 400 }]);
    }
  });
});

describe('in a container', () => {
  /** A server that shows what it got. Resolves to its port. */
  async function startShowing(label: string) {
    const server = createServer(({ headers }, response) => {
      const { host, 'x-forwarded-for': client, 'x-forwarded-proto': scheme } = headers;
      response.end([label, host, client, scheme].join(' '));
    });
    onTestFinished(() => server.closeAllConnections());
    return listen(server);
  }
  const ask = (port: number, from: string, client: string | string[] = '192.0.2.9, 192.0.2.7') => {
    const dispatcher = new Agent({ localAddress: from });
    onTestFinished(() => dispatcher.close());
    const headers = { host: 'a.test', 'x-forwarded-for': client, 'x-forwarded-proto': 'https' };
    return request(`http://127.0.0.1:${port}`, { headers, dispatcher }).then(({ body }) => body.text());
  };

  test('of a pod, nginx names the client that the proxy named', async () => {
    const ports = await startContained('sidecar', [await startShowing('pod')]);
    const [own = 0] = ports;
    expect(await ask(own, '127.0.0.1')).toBe('pod a.test 192.0.2.7 https');
    // Only the proxy is believed.
    expect(await ask(own, '127.0.0.2')).toBe('pod a.test 127.0.0.2 https');
  });

  test.each([
    ['sidecar', '10.244.3.4'],
    ['compose', '192.168.1.5'],
    ['compose', '172.17.0.9'],
  ] as const)('of %s, a client in the network of the proxy, %s, cannot choose its address', async (place, client) => {
    const port = await startShowing('it');
    const ports = await startContained(place, [port, port]);
    const forged = '192.0.2.9';
    for (const header of [
      client,
      `${forged}, ${client}`,
      `${forged}, 10.244.0.1, 192.168.0.1, 127.0.0.1, ${client}`,
      [forged, client],
      [`${forged}, 192.168.0.1`, `172.17.0.1,${client}`],
      `nonsense, ${client}`,
    ])
      expect(await ask(ports[0] as number, '127.0.0.1', header), `${header}`).toBe(`it a.test ${client} https`);
  });

  test('of Compose, nginx leads each port to a deployment of its own', async () => {
    const [production, staging] = [await startShowing('production'), await startShowing('staging')];
    const ports = await startContained('compose', [production, staging]);
    for (const [at, label] of ['production', 'staging'].entries())
      expect(await ask(ports[at] as number, '127.0.0.1')).toBe(`${label} a.test 192.0.2.7 https`);
  });
});

describe('the logs have every request', () => {
  const path = '/account/links/TOKEN';
  const rest = `Host: ${name}\r\nConnection: close\r\n`;
  const get = (target: string, headers = rest) => `GET ${target} HTTP/1.1\r\n${headers}\r\n`;
  const post = (headers: string) => get(path, headers).replace('GET', 'POST');

  /** Every way to send a secret in a request, also in requests that nginx rejects at different moments. */
  const requests = [
    get(path),
    `${post(`${rest}Content-Length: 1\r\n`)}x`,
    post(`${rest}Content-Length: 999999\r\n`),
    // The body is cut.
    post(`Host: ${name}\r\nContent-Length: 9\r\n`),
    get(path).replace('GET', 'TRACE'),
    get(path.replace('links', 'l%69nks')),
    get(path.replace('TOKEN', 'ENCODED')),
    get(path.replace('TOKEN', 'MIXED')),
    get(`https://${name}${path}`),
    get(`https://zoo:TOKEN@${name}/docs`),
    get(path, rest.replace(name, 'other.example.com')),
    get(path, ''),
    get(path, `${rest}b@d\x01: x\r\n`),
    get(`${path}?${'x'.repeat(70_000)}`),
    // The headers do not end.
    get(path).slice(0, -2),
    get(path).replace('/1.1', '/1.0'),
    get(path).replace('/1.1', '/TOKEN'),
    get(path).replace(' HTTP/1.1', ''),
    get('/docs/icon.svg', `${rest}Referer: https://${name}${path}\r\n`),
    ...['/v1/pets/TOKEN', '/v1/pets?TOKEN', '/v1/pets#TOKEN', '//TOKEN', '/v1/pets/1?a=MIXED'].map((to) => get(to)),
    ...['TOKEN', 'x/1 (TOKEN)', 'curl/8 ENCODED'].map((agent) => get('/v1/pets', `${rest}User-Agent: ${agent}\r\n`)),
    ...['TOKEN', 'xTOKEN', 'TOKEN/'].map((method) => get('/v1/pets').replace('GET', method)),
    get('/v1/pets', `Host: TOKEN.${name}\r\nConnection: close\r\nX-Forwarded-For: TOKEN\r\nCookie: a=TOKEN\r\n`),
    'TOKEN\r\n\r\n',
  ];
  const encode = (text: string) => text.replace(/./g, (char) => `%${char.charCodeAt(0).toString(16)}`);
  /** Halfway, so that each part is shorter than what is cut. */
  const mix = (text: string) => text.slice(0, 22) + encode(text.slice(22, 23)) + text.slice(23);
  /** A part of a secret is a leak, too. */
  const partsOf = (secret: string) =>
    [secret.slice(9), encode(secret.slice(9))].flatMap((text) => [
      text.slice(0, 9),
      text.slice(12, 24),
      text.slice(-9),
    ]);

  test.each([
    ['answers', async () => startBehindNginx()],
    ['is down', () => startNginxAlone()],
  ])('and never a one-time link or a key, if the server %s', async (_what, start) => {
    const { https, ca, raw, rawHttp, accessLog, written } = await start();
    const sentAs = new Map<string, string>();
    const make = [
      () => newToken().token,
      () => newSecret(true).key.replace('ast_live', 'ast_l1ve'),
      () => newSecret(true).key,
    ];
    const sent = requests.flatMap((text) =>
      [raw, rawHttp].flatMap((send) =>
        make.map((makeSecret) => {
          const secret = makeSecret();
          sentAs.set(secret, text.slice(0, 200));
          const bytes = text.replaceAll('TOKEN', secret).replaceAll('ENCODED', encode(secret));
          // nginx resets a connection that times out.
          return send(bytes.replaceAll('MIXED', mix(secret))).catch(() => {});
        }),
      ),
    );
    const session = connectHttp2(`https://127.0.0.1:${https}`, { ca, servername: name });
    onTestFinished(() => session.destroy());
    for (const target of [path, '/v1/pets?TOKEN', '/v1/pets']) {
      const { token } = newToken();
      sentAs.set(token, `HTTP/2 ${target}`);
      const headers = { 'user-agent': `x/1 ${token}`, referer: token, cookie: token, authorization: `Bearer ${token}` };
      const stream = session.request({ ':path': target.replace('TOKEN', token), ':authority': name, ...headers });
      sent.push(once(stream, 'response').then(() => {}));
    }
    await Promise.all(sent);
    await expect.poll(() => accessLog().split('\n').length - 1).toBe(sentAs.size);
    const all = written();
    const leaks = [...sentAs].filter(([secret]) => partsOf(secret).some((part) => all.includes(part)));
    expect(leaks.map(([, text]) => text)).toEqual([]);
  });

  test('legibly: method, path and client, but no query', async () => {
    const { raw, call, https, ca, accessLog, authorization } = await startBehindNginx();
    const browser =
      'Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.5 Safari/604.1';
    await call('GET', '/v1/pets/123', { authorization, 'user-agent': browser });
    await call('GET', '/v1/pets?status=sold', { 'user-agent': 'curl/8.14.1' });
    await call('POST', '/v1/pets?', {}, 'x'.repeat(140_000));
    await call('GET', `/account/links/${newToken().token}/x`, { 'user-agent': `x/1 ${newToken().token} y` });
    await call('GET', `/${'a/'.repeat(300)}`, { 'user-agent': 'é'.repeat(300) });
    await raw(`GET /%61ccount/sign-in#a HTTP/1.0\r\nHost: ${name}\r\n\r\n`);
    await raw(`GET http://${name}/docs HTTP/1.1\r\nHost: ${name}\r\nConnection: close\r\n\r\n`);
    await raw('GET /v1/pets\r\n');
    // Its host would have a password.
    await raw(`GET HTTPS://zoo:otters@${name} HTTP/1.1\r\n\r\n`);
    await raw('nonsense\r\n\r\n');
    const session = connectHttp2(`https://127.0.0.1:${https}`, { ca, servername: name });
    onTestFinished(() => session.destroy());
    await once(session.request({ ':path': '/docs/icon.svg?a', ':authority': name }).resume(), 'end');
    const requests = () => accessLog().match(/(?<=\] )"[^"]*" \d+/g);
    await expect
      .poll(requests)
      .toEqual([
        '"GET /v1/pets/123 HTTP/1.1" 404',
        '"GET /v1/pets HTTP/1.1" 401',
        '"POST /v1/pets HTTP/1.1" 413',
        '"GET /account/links/... HTTP/1.1" 404',
        expect.stringMatching(/^"GET (\/a){50}\.\.\. HTTP\/1\.1" 404$/),
        '"GET /%61ccount/sign-in HTTP/1.0" 200',
        '"GET /docs HTTP/1.1" 200',
        '"GET /v1/pets " 400',
        '"GET  " 400',
        '"-" 400',
        '"GET /docs/icon.svg HTTP/2.0" 200',
      ]);
    const agents = accessLog().match(/(?<="-" )"[^"]*"/g);
    expect(agents).toEqual([
      `"${browser}"`,
      '"curl/8.14.1"',
      '"-"',
      '"x/1 "',
      expect.stringMatching(/^"(\\x..){100}"$/),
      ...Array(6).fill('"-"'),
    ]);
  });
});
