/** Tests of POST /quickstart/messages and of its OpenAPI document. */
import { describe, expect, test, vi } from 'vitest';
import { limits } from '../../../src/core/limits.ts';
import { startApp } from '../../support/app.ts';
import { emptyStore, open, runSql, textRows } from '../../support/store.ts';

const hourMs = 60 * 60 * 1000;

test('an account has a bounded number of messages, which are kept for 24 hours', async () => {
  const databaseUrl = await emptyStore();
  let time = Date.UTC(2027, 0, 1);
  const { messages } = await open(databaseUrl);
  const add = (id: string, accountId: number) =>
    messages.add({ id, accountId, message: 'x', status: 'queued', createdAt: new Date(time).toISOString() });
  const begun = time;
  const rows = Array.from(
    { length: limits.messages - 3 },
    (_, index) => `('0${index}', 1, 'x', 'queued', ${begun + 1})`,
  );
  await runSql(databaseUrl, `INSERT INTO message VALUES ${rows}`);
  for (const id of ['a', 'b', 'c']) {
    expect(await add(id, 1)).toBeUndefined();
    time += hourMs;
  }
  expect(await add('d', 1)).toEqual({ fullUntil: begun + 24 * hourMs });
  expect(await add('e', 2)).toBeUndefined();
  time = begun + 24 * hourMs;
  expect(await add('f', 1)).toBeUndefined();
  const ids = (await textRows(databaseUrl, 'SELECT id FROM message ORDER BY id')).map(({ id }) => id);
  // Whoever adds one also deletes those that are too old.
  expect(ids.filter((id) => !id?.startsWith('0'))).toEqual(['b', 'c', 'e', 'f']);
});

describe('POST /quickstart/messages', () => {
  test('returns 429 with Retry-After if the account has its most messages', async () => {
    const { call, setTime, store } = await startApp();
    const begun = Date.now();
    setTime(new Date(begun));
    const { add } = store.messages;
    const refuse = vi.fn(async () => ({ fullUntil: begun + 5000 }));
    store.messages.add = refuse;
    const answer = await call('POST', '/quickstart/messages', { body: { message: 'Hello' } });
    expect(answer).toMatchObject({ status: 429, json: { code: 'rate_limited' } });
    expect(answer.headers['retry-after']).toBe('5');
    // From memory, until there is room.
    expect((await call('POST', '/quickstart/messages', { body: { message: 'Hello' } })).status).toBe(429);
    expect(refuse).toHaveBeenCalledTimes(1);
    store.messages.add = add;
    setTime(new Date(begun + 5000));
    expect((await call('POST', '/quickstart/messages', { body: { message: 'Hello' } })).status).toBe(202);
  });

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
    expect((await call('POST', '/quickstart/messages', { body: { message: '' } })).status).toBe(202);
  });

  test('returns 400 invalid_body for what is no message', async () => {
    const { call } = await startApp();
    for (const [body, type, message] of [
      ['{}', 'application/json', 'message is required.'],
      ['{"message":1}', 'application/json', 'message must be a string without NUL and without lone surrogates.'],
      ...['null', '"a\\u0000"', '"\\ud800"'].map(
        (value) =>
          [
            `{"message":${value}}`,
            'application/json',
            'message must be a string without NUL and without lone surrogates.',
          ] as const,
      ),
      ['{"message":"a","to":"b"}', 'application/json', '"to" is not a known field.'],
      ['', 'application/json', 'The body is missing.'],
      [
        '{"message":"a"}',
        'text/plain',
        'Send the header Content-Type: application/json; the body must be in UTF-8, without a content coding.',
      ],
      [
        '{"message":"a"}',
        null,
        'Send the header Content-Type: application/json; the body must be in UTF-8, without a content coding.',
      ],
    ] as const) {
      expect((await call('POST', '/quickstart/messages', { body, type })).json, `${body}`).toEqual({
        code: 'invalid_body',
        message,
        status: 400,
      });
    }
  });

  test('returns 404 if the quickstart is switched off', async () => {
    const { call } = await startApp({ quickstartBasePath: undefined });
    expect((await call('GET', '/quickstart/openapi.json')).status).toBe(404);
    expect((await call('POST', '/quickstart/messages/', { body: { message: 'Hello' } })).status).toBe(404);
  });
});
