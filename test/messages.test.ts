/** Tests of POST /quickstart/messages and of its OpenAPI document. */
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { startApp } from './support/app.ts';

describe('POST /quickstart/messages', () => {
  test('returns 202 with the queued message', async () => {
    const { call, setTime } = await startApp();
    setTime(new Date('2027-03-04T05:06:07.089Z'));
    const answer = await call('POST', '/quickstart/messages', { body: { message: 'Hello' } });
    expect(answer).toMatchObject({
      status: 202,
      headers: { 'content-type': 'application/json', 'cache-control': 'no-store' },
    });
    expect(answer.json).toEqual({
      id: expect.stringMatching(/^msg_[0-9a-f]{32}$/),
      message: 'Hello',
      status: 'queued',
      createdAt: '2027-03-04T05:06:07.089Z',
    });
  });

  test.each([
    ['{}', 'application/json', 'message is required.'],
    ['{"message":1}', 'application/json', 'message must be a string without NUL and without lone surrogates.'],
    ['{"message":"a","to":"b"}', 'application/json', '"to" is not a known field.'],
    ['', 'application/json', 'The body is missing.'],
    ['{"message":"a"}', 'text/plain', 'The body must be application/json in UTF-8, without a content coding.'],
    ['{"message":"a"}', null, 'The body must be application/json in UTF-8, without a content coding.'],
  ])('returns 400 invalid_body for %s as %s', async (body, type, message) => {
    const { call } = await startApp();
    expect((await call('POST', '/quickstart/messages', { body, type })).json).toEqual({
      code: 'invalid_body',
      message,
      status: 400,
    });
  });

  test('returns 400 invalid_json for a body that is not JSON', async () => {
    const { call } = await startApp();
    expect((await call('POST', '/quickstart/messages', { body: '{' })).json.code).toBe('invalid_json');
  });

  test.each([
    [{}, 'missing_api_key'],
    [{ authorization: 'ast_test_x' }, 'missing_api_key'],
    [{ authorization: 'Bearer ast_test_x' }, 'invalid_api_key'],
  ])('returns 401 for the headers %j', async (headers, code) => {
    const { call } = await startApp();
    const answer = await call('POST', '/quickstart/messages', { key: null, headers, body: { message: 'Hello' } });
    expect(answer).toMatchObject({ status: 401, json: { code } });
  });

  test('returns 405 to other methods', async () => {
    const { call } = await startApp();
    expect(await call('GET', '/quickstart/messages')).toMatchObject({
      status: 405,
      headers: { allow: 'POST, OPTIONS' },
    });
  });

  test('returns 404 if the quickstart is switched off', async () => {
    const { call } = await startApp({ quickstartBasePath: undefined });
    expect((await call('GET', '/quickstart/openapi.json')).status).toBe(404);
    expect((await call('POST', '/quickstart/messages/', { body: { message: 'Hello' } })).status).toBe(404);
  });

  test('has its own OpenAPI document, which names this server', async () => {
    const { call } = await startApp({ baseUrl: 'https://api.example.com/v1' });
    const { json } = await call('GET', '/quickstart/openapi.json', { key: null });
    expect(Object.keys(json.paths)).toEqual(['/messages']);
    expect(json.servers[0]).toEqual({ url: 'https://api.example.com/quickstart', description: 'This server' });
    expect(parse((await call('GET', '/quickstart/openapi.yaml', { key: null })).text)).toEqual(json);
  });
});
