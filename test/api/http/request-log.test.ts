/** Tests of the log line of a request. */

import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { newToken } from '../../../src/core/people.ts';
import { metricValue, startApp, type TestApp } from '../../support/app.ts';
import { converse, rawPost } from '../../support/raw.ts';

const traceId = '0af7651916cd43dd8448eb211c80319c';
const traceparent = `00-${traceId}-b7ad6b7169203331-01`;

/** Sends a request, and resolves to its only log line, found by the id of the response. */
async function lineFor({ port, key, logged }: TestApp, line: string, more = `Authorization: Bearer ${key}\r\n`) {
  const [answer] = await converse(port, [`${line} HTTP/1.1\r\nHost: a\r\n${more}\r\n`]);
  const lines = () => logged(String(answer?.headers['x-request-id'])).filter(({ msg }) => msg === 'request');
  await expect.poll(lines).toHaveLength(1);
  return lines()[0];
}

test('has the request, its outcome, and for an error its code', async () => {
  const app = await startApp();
  const rows: [line: string, status: number, route: string | null, code?: string][] = [
    ['GET /v1/pets', 200, '/v1/pets'],
    ['GET /v1/pets?cursor=x', 400, '/v1/pets', 'invalid_cursor'],
    ['GET /v1/pets/7', 404, '/v1/pets/:petId', 'pet_not_found'],
    ['DELETE /v1/pets', 405, '/v1/pets', 'method_not_allowed'],
    ['GET /v1/pets/%zz', 400, null, 'invalid_url'],
    ['GET /nowhere', 404, null, 'route_not_found'],
    ['GET /v1/pets/', 404, null, 'route_not_found'],
  ];
  for (const [line, status, route, code] of rows) {
    const more = `Authorization: Bearer ${app.key}\r\ntraceparent: ${traceparent}\r\n`;
    const [method] = line.split(' ');
    const expected = { level: 30, method, route, status, traceId, address: '127.0.0.1', ms: expect.any(Number) };
    const logged = await lineFor(app, line, more);
    expect(logged, line).toMatchObject({ ...expected, ...(code && { code }) });
    expect(logged, line).not.toHaveProperty('aborted');
  }
  expect(await lineFor(app, 'GET /v1/pets', '')).toMatchObject({ status: 401, code: 'missing_api_key' });
  expect(await lineFor(app, 'BREW /v1/pets')).toMatchObject({ status: 400, code: 'bad_request' });
  expect((await app.call('HEAD', '/v1/pets')).status).toBe(200);
  await expect.poll(app.log).toMatch(/"method":"HEAD","route":"\/v1\/pets","status":200/);
});

test('does not count the time in which the client sends the body', async () => {
  const { port, key, logged } = await startApp();
  const body = '{"name":"Slow","categoryId":1}';
  await converse(port, [rawPost(key, '', body.length), body], { gapMs: 1000 });
  const lines = () => logged('"method":"POST"');
  await expect.poll(lines).toMatchObject([{ status: 201 }]);
  expect(lines()[0]?.ms).toBeLessThan(900);
});

test('counts the time in which the key of a create is looked up', async () => {
  const { add, store, logged } = await startApp();
  const { findKey } = store.accounts;
  store.accounts.findKey = (...input) => sleep(200).then(() => findKey(...input));
  await add({ name: 'Biscuit', categoryId: 7 });
  await expect.poll(() => logged('"method":"POST"')).toHaveLength(1);
  expect(logged('"method":"POST"')[0]?.ms).toBeGreaterThan(199);
});

test('is the only one of a client that resets its connection, while a body arrives or without a request', async () => {
  const { metrics, port, key, log, logged } = await startApp();
  for (const sent of ['', rawPost(key, '{', 9)]) {
    const socket = connect(port, '127.0.0.1');
    socket.write(sent);
    await expect.poll(() => metricValue(metrics, 'connections')).toBe(1);
    await expect.poll(() => metricValue(metrics, 'in_flight')).toBe(Number(sent !== ''));
    socket.resetAndDestroy();
  }
  await expect.poll(() => logged('"msg":"request"')).toMatchObject([{ status: 499, aborted: true }]);
  expect(log()).not.toMatch(/"level":[456]0/);
});

test('has no error beside it if the parser finds a fault while a page is made', async () => {
  const { port, log } = await startApp();
  await converse(port, ['GET /account HTTP/1.1\r\nHost: a\r\nAccept: text/html\r\nTransfer-Encoding: gzip\r\n\r\n']);
  await expect.poll(log).toMatch(/"status":400.*"code":"bad_request"/);
  expect(log()).not.toMatch(/"level":[456]0/);
});

test('has the path if there is no route: 200 characters, without query, links and keys', async () => {
  const app = await startApp();
  const { token } = newToken();
  for (const [target, path] of [
    ['/v2/pets?limit=1', '/v2/pets'],
    ['/x'.repeat(150), '/x'.repeat(100)],
    [`/v1/${app.key}`, '/v1/…'],
    [`/%2561st%5Ftest_${app.key.slice(9)}`, '/…'],
    [`/account;/${token}`, '/account;/…'],
    ['/caf%C3%A9', '/caf%C3%A9'],
    [`/account/links/${token}/`, '/account/…'],
    ['http://localhost/v2', '/v2'],
    [`/ACCOUNT/links/${token}`, '/ACCOUNT/…'],
  ] as const)
    expect(await lineFor(app, `GET ${target}`), target).toMatchObject({ status: 404, route: null, path });
  const url = 'GET http://ada:password@localhost/v2';
  expect(await lineFor(app, url)).toMatchObject({ status: 400, code: 'invalid_url', path: '/v2' });
  const known = { status: 404, route: '/account/links/:token', code: 'route_not_found' };
  expect(await lineFor(app, `GET /account/links/${token}`)).toMatchObject(known);
  expect(app.log()).not.toContain(token);
});

test.for<[proxies: string[] | undefined, forwarded: string, address: string]>([
  [undefined, '192.0.2.1', '127.0.0.1'],
  [['127.0.0.1'], '198.51.100.7, 192.0.2.1', '192.0.2.1'],
  [['127.0.0.1'], '[2001:db8::1]:5001', '2001:db8::1'],
  [['127.0.0.1'], '::ffff:c000:201', '192.0.2.1'],
  [['127.0.0.1', '192.0.2.0/24'], '198.51.100.7:80, 192.0.2.1:5001', '198.51.100.7'],
  // No address, which could break the line.
  [['127.0.0.1'], '"},', '127.0.0.1'],
  [['127.0.0.1'], '', '127.0.0.1'],
])(
  'has the address of the client, behind the proxies %s for X-Forwarded-For %s: %s',
  async ([trustProxy, forwarded, address]) => {
    const app = await startApp({ trustProxy });
    const more = `X-Forwarded-For: ${forwarded}\r\n`;
    expect(await lineFor(app, 'GET /v1/pets', more)).toMatchObject({ address });
    // That of the connection, if the request cannot be parsed.
    expect(await lineFor(app, 'BREW /', more)).toMatchObject({ address: '127.0.0.1' });
  },
);

test('has no trace id for a traceparent that is malformed', async () => {
  const app = await startApp();
  const short = traceparent.slice(2);
  for (const header of [
    'x',
    traceparent.toUpperCase(),
    `00-${traceId}`,
    '',
    `x${traceparent}`,
    traceparent.slice(0, -1),
    `00${short}-1`,
    `ff${short}`,
    traceparent.replace(/[^-]/g, '0'),
  ])
    expect(await lineFor(app, 'GET /v1/pets', `traceparent: ${header}\r\n`), header).not.toHaveProperty('traceId');
});
