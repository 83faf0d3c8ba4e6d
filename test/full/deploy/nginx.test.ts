/** Tests deploy/nginx.conf with a real nginx and real servers: the requests that it forwards, and those that it refuses itself. */
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { gunzipSync } from 'node:zlib';
import { request } from 'undici';
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { type ErrorCode, errorMessages } from '../../../src/core/errors.ts';
import { statuses } from '../../../src/http/errors.ts';
import { type Answer, name, startNginx, startNginxAlone } from '../../support/nginx.ts';
import { startServer } from '../../support/process.ts';

const tabby = { name: 'Tabby', categoryId: 1 };
const missing = ['nginx', 'openssl'].filter((tool) => spawnSync(tool, ['-h']).error);

beforeEach(({ skip }) => {
  if (missing.length > 0) skip(`not installed: ${missing.join(', ')}`);
});

/** Checks that nginx itself has refused the request, with an Error body. */
function expectError({ status, headers, body }: Answer, code: ErrorCode): void {
  const expected = statuses[code];
  const message = errorMessages[code];
  expect({ status, body: JSON.parse(body) }).toEqual({ status: expected, body: { code, message, status: expected } });
  expect(headers).toMatchObject({
    'content-type': 'application/json',
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
    'x-request-id': expect.stringMatching(/^[0-9a-f]{32}$/),
    'strict-transport-security': 'max-age=31536000',
  });
}

/** The request headers named by all Vary headers. */
function varyOf({ headers }: Answer): string[] {
  return [headers.vary ?? []].flat().join().toLowerCase().split(/, */).sort();
}

async function startBehindNginx(env: Record<string, string> = {}) {
  const server = await startServer({ env: { BASE_URL: `https://${name}/v1`, TRUST_PROXY: '127.0.0.1', ...env } });
  const proxy = await startNginx({ production: server.port, staging: server.port });
  return { server, ...proxy, authorization: `Bearer ${await server.firstKey()}` };
}

describe('a request through nginx', () => {
  test('goes to the deployment of its host name, whose URLs are in the response', async () => {
    const [server, other] = await Promise.all([
      startServer({ env: { BASE_URL: `https://${name}/v1` } }),
      startServer({ env: { BASE_URL: `https://staging.${name}/v1` } }),
    ]);
    const { call } = await startNginx({ production: server.port, staging: other.port });
    const authorization = `Bearer ${await server.firstKey()}`;
    const json = { 'content-type': 'application/json' };
    const added = await call('POST', '/v1/pets', { authorization, ...json }, JSON.stringify(tabby));
    expect(added).toMatchObject({ status: 201, headers: { location: `https://${name}/v1/pets/1` } });
    const listed = await call('GET', '/v1/pets?limit=1', { authorization });
    expect(JSON.parse(listed.body)).toEqual([{ id: 1, ...tabby, status: 'available' }]);
    const { etag = '' } = listed.headers;
    expect(await call('GET', '/v1/pets?limit=1', { authorization, 'if-none-match': String(etag) })).toMatchObject({
      status: 304,
      headers: { etag, 'strict-transport-security': 'max-age=31536000' },
    });
    const staging = { host: `staging.${name}`, authorization: `Bearer ${await other.firstKey()}` };
    expect(await call('GET', '/v1/pets', staging)).toMatchObject({ status: 200, body: '[]' });
    expect(await call('GET', '/v1/pets', { ...staging, authorization })).toMatchObject({ status: 401 });
  });

  test("is forwarded unchanged, and the server's own errors are returned unchanged", async () => {
    const { call, authorization, server } = await startBehindNginx();
    for (const target of [
      '/v1/pets?limit=%31%30%30',
      '/v1//pets',
      '/v1/pets/%2e%2e/pets',
      `/v1/pets?x=${'y'.repeat(8300)}`,
    ]) {
      const direct = await fetch(server.url + target, { headers: { authorization } });
      const { status, body } = await call('GET', target, { authorization });
      expect([target, status, body]).toEqual([target, direct.status, await direct.text()]);
    }
    const headers = { authorization, 'content-type': 'application/json' };
    const long = await call('POST', '/v1/pets', headers, JSON.stringify({ ...tabby, name: 'x'.repeat(70_000) }));
    expect(long.status).toBe(413);
    expect(long.headers['x-request-id']).toMatch(/-/);
    for (const path of ['/livez', '/readyz', '/metrics']) expect((await call('GET', path)).status).toBe(404);
  });

  test('gets a long list compressed, and 304 for its ETag in the weak form of nginx and in the strong form of the server', async () => {
    const { call, server, authorization } = await startBehindNginx();
    const json = { authorization, 'content-type': 'application/json' };
    const add = () => call('POST', '/v1/pets', json, JSON.stringify({ ...tabby, name: 'Tabby'.repeat(20) }));
    await Promise.all(Array.from({ length: 20 }, add));
    const direct = await fetch(`${server.url}/v1/pets`, { headers: { authorization } });
    const strong = direct.headers.get('etag') as string;
    const weak = `W/${strong}`;

    const asked = { authorization, 'accept-encoding': 'gzip' };
    const compressed = await call('GET', '/v1/pets', asked);
    expect(compressed).toMatchObject({ status: 200, headers: { 'content-encoding': 'gzip', etag: weak } });
    expect(varyOf(compressed)).toEqual(['accept-encoding', 'authorization']);
    expect(gunzipSync(compressed.bytes).toString()).toBe(await direct.text());
    expect(compressed.bytes.length).toBeLessThan(500);
    const plain = await call('GET', '/v1/pets', { authorization });
    expect([plain.headers['content-encoding'], plain.headers.etag]).toEqual([undefined, strong]);
    expect(varyOf(plain)).toEqual(['accept-encoding', 'authorization']);

    for (const [etag, headers] of [
      [weak, asked],
      [strong, asked],
      [weak, { authorization }],
    ] as const) {
      const again = await call('GET', '/v1/pets', { ...headers, 'if-none-match': etag });
      expect([etag, again.status, again.body, again.headers.etag]).toEqual([etag, 304, '', strong]);
    }
    await add();
    expect((await call('GET', '/v1/pets?limit=100', { ...asked, 'if-none-match': weak })).status).toBe(200);
  });

  test('is counted under its real address, whatever X-Forwarded-For claims', async () => {
    const { call, server } = await startBehindNginx();
    expect((await call('GET', '/v1/pets', { 'x-forwarded-for': '192.0.2.1' })).status).toBe(401);
    await server.seen('stdout', /"status":401,.*"address":"127\.0\.0\.1"/);
  });

  test('reuses the connection to the server', async () => {
    const sockets = new Set<unknown>();
    const upstream = createServer((incoming, response) => {
      sockets.add(incoming.socket);
      response.end();
    }).listen(0, '127.0.0.1');
    onTestFinished(() => void upstream.close());
    await once(upstream, 'listening');
    const { port } = upstream.address() as AddressInfo;
    const { call } = await startNginx({ production: port, staging: port });
    for (let count = 0; count < 20; count++) expect((await call('GET', '/')).status).toBe(200);
    expect(sockets.size).toBe(1);
  });
});

describe('nginx itself responds with an Error body', () => {
  test('to a body, URL or headers above its limits, to a method that is not allowed, and to its internal path', async () => {
    const { call, raw } = await startNginxAlone();
    expectError(await call('POST', '/v1/pets', {}, 'x'.repeat(140_000)), 'payload_too_large');
    expectError(await call('GET', `/v1/pets?x=${'y'.repeat(17_000)}`), 'uri_too_long');
    expectError(await call('GET', '/v1/pets', { cookie: 'x'.repeat(17_000) }), 'headers_too_large');
    expectError(await call('GET', '/animal-store-error'), 'route_not_found');
    const trace = await raw(`TRACE /v1/pets HTTP/1.1\r\nHost: ${name}\r\nConnection: close\r\n\r\n`);
    expect(trace).toMatch(
      /^HTTP\/1\.1 405 [\s\S]*\r\nAllow: GET, HEAD, POST, OPTIONS\r\n[\s\S]*"code":"method_not_allowed"/,
    );
    for (const broken of [
      'nonsense\r\n\r\n',
      'GET /v1/pets HTTP/1.1\r\n\r\n',
      'GET /v1/pets HTTP/1.1\r\nHost: other.example.com\r\nConnection: close\r\n\r\n',
      `GET / HTTP/1.1\r\nHost: ${name}\r\nTransfer-Encoding: x\r\n\r\n`,
    ])
      expect(await raw(broken), broken).toMatch(
        /^HTTP\/1\.1 400 [\s\S]*{"code":"bad_request","message":"[^"]*","status":400}$/,
      );
  });

  test('if the server is down: 503 with Retry-After', async () => {
    const { call } = await startNginxAlone();
    const answer = await call('GET', '/v1/pets');
    expectError(answer, 'service_unavailable');
    expect(answer.headers['retry-after']).toBe('1');
  });

  test('to a request without TLS: 400, not a redirect; another host name gets no certificate', async () => {
    const { http, https, ca } = await startNginxAlone();
    const clear = await request(`http://127.0.0.1:${http}/v1/pets`, { headers: { host: name } });
    expect([clear.statusCode, await clear.body.json()]).toEqual([
      400,
      { code: 'bad_request', message: 'Use https.', status: 400 },
    ]);
    const misdirected = await request(`http://127.0.0.1:${https}/v1/pets`, { headers: { host: name } });
    expect([misdirected.statusCode, misdirected.headers['content-type']]).toEqual([400, 'application/json']);
    const other = connectTls({ host: '127.0.0.1', port: https, ca, servername: 'other.example.com' });
    await expect(once(other, 'secureConnect')).rejects.toMatchObject({
      code: expect.stringContaining('UNRECOGNIZED_NAME'),
    });
  });
});
