/** Tests of the log line of each request: what it says of an error, and of a path that no route matches. */
import { expect, test } from 'vitest';
import { newToken } from '../../../src/core/people.ts';
import { startApp } from '../../support/app.ts';
import { converse } from '../../support/raw.ts';

const lineOf = (log: string, id: unknown) =>
  log
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line))
    .find(({ reqId, msg }) => reqId === id && msg === 'request');

test('each 4xx and 5xx line has the code of the error, under the id of the response', async () => {
  const { port, key, log } = await startApp();
  const rows: [string, number, string][] = [
    ['GET /v1/pets?limit=0', 400, 'invalid_parameter'],
    ['GET /v1/pets?cursor=x', 400, 'invalid_cursor'],
    ['GET /v1/pets/%zz', 400, 'invalid_url'],
    ['GET /v1/pets/7', 404, 'pet_not_found'],
    ['DELETE /v1/pets', 405, 'method_not_allowed'],
    ['GET /v1/store/orders', 501, 'not_implemented'],
    ['GET /nowhere', 404, 'route_not_found'],
    ['BREW /v1/pets', 400, 'bad_request'],
  ];
  for (const [line, status, code] of rows) {
    const [answer] = await converse(port, [`${line} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\n\r\n`]);
    expect(answer?.status, line).toBe(status);
    expect(lineOf(log(), answer?.headers['x-request-id'])).toMatchObject({ status, code });
  }
  const [none] = await converse(port, ['GET /v1/pets HTTP/1.1\r\nHost: a\r\n\r\n']);
  expect(lineOf(log(), none?.headers['x-request-id'])).toMatchObject({ status: 401, code: 'missing_api_key' });
});

test('a path without a route is in the line, without its query, links, keys, and more than 200 characters', async () => {
  const { call, key, log } = await startApp();
  const { token } = newToken();
  const pathOf = async (target: string) => {
    const { headers } = await call('GET', target, { key: null });
    return lineOf(log(), headers['x-request-id']);
  };
  for (const [target, path] of [
    ['/v2/pets?limit=1', '/v2/pets'],
    ['/v1/"pets"', '/v1/%22pets%22'],
    [`/${'x'.repeat(300)}`, `/${'x'.repeat(199)}`],
    [`/v1/${key}`, '/v1/ast_test_…'],
    [`/account/links/${token}/`, '/account/…'],
    [`/ACCOUNT/links/${token}`, '/ACCOUNT/…'],
  ] as const)
    expect(await pathOf(target), target).toMatchObject({ status: 404, route: null, path });
  const known = await pathOf(`/account/links/${token}`);
  expect(known).toMatchObject({ status: 404, route: '/account/links/:token', code: 'route_not_found' });
  expect(log()).not.toContain(token);
});
