/** Tests of GET /v1/pets/{petId} and of its deprecation headers. */
import { describe, expect, test } from 'vitest';
import { type JsonAnswer, startApp } from '../../support/app.ts';
import { links } from '../../support/links.ts';
import { converse } from '../../support/raw.ts';

const sunset = new Date('2030-12-05T00:00:00Z');

function expectDeprecated({ headers }: JsonAnswer): void {
  expect(headers).toMatchObject({ deprecation: '@1795132800', sunset: 'Thu, 05 Dec 2030 00:00:00 GMT' });
  expect(links(headers.link)).toEqual({
    'successor-version': '/v1/pets',
    deprecation: '/docs#animal-store/tag/pets/getPet',
  });
}

describe('GET /v1/pets/{petId}', () => {
  test('returns 200 with the pet', async () => {
    const { add, call } = await startApp();
    const { text } = await add({ name: 'Biscuit', categoryId: 7, status: 'sold' });
    const answer = await call('GET', '/v1/pets/1');
    expect(answer).toMatchObject({ status: 200, text });
    expectDeprecated(answer);
  });

  test('returns 200 to HEAD and 304 to a matching If-None-Match', async () => {
    const { add, call } = await startApp();
    await add({ name: 'Biscuit', categoryId: 7 });
    const { etag } = (await call('HEAD', '/v1/pets/1')).headers;
    const answer = await call('GET', '/v1/pets/1', { headers: { 'if-none-match': etag as string } });
    expect(answer).toMatchObject({ status: 304, text: '', headers: { etag } });
    expectDeprecated(answer);
  });

  test('returns 404 pet_not_found for an id that no pet has', async () => {
    const { add, call } = await startApp();
    await add({ name: 'Biscuit', categoryId: 7 });
    for (const id of [
      '2',
      '0',
      '-0',
      '-1',
      '9007199254740993',
      '9223372036854775807',
      '-9223372036854775808',
      '%32',
    ] as const) {
      const answer = await call('GET', `/v1/pets/${id}`);
      expect(answer, `${id}`).toMatchObject({ status: 404, json: { code: 'pet_not_found' } });
      expectDeprecated(answer);
    }
  });

  test('returns 400 invalid_parameter for what is not a 64-bit integer', async () => {
    const { call } = await startApp();
    for (const id of [
      'x',
      '01',
      '+1',
      '1.0',
      '1e3',
      '9223372036854775808',
      '-9223372036854775809',
      '1'.repeat(4000),
      '%20',
      '1%00',
    ] as const) {
      const answer = await call('GET', `/v1/pets/${id}`);
      expect(answer.json, `${id}`).toEqual({
        code: 'invalid_parameter',
        message: 'petId must be an integer from -9223372036854775808 to 9223372036854775807.',
        status: 400,
      });
      expectDeprecated(answer);
    }
  });

  test('sends the deprecation headers with 401, 403, 405 and the response to OPTIONS', async () => {
    const { call, newKey } = await startApp();
    const { key } = await newKey({ scopes: ['pets:write'] });
    const answers = [
      await call('GET', '/v1/pets/1', { key: null }),
      await call('GET', '/v1/pets/1', { key }),
      await call('DELETE', '/v1/pets/1'),
      await call('OPTIONS', '/v1/pets/1'),
    ];
    expect(answers.map(({ status }) => status)).toEqual([401, 403, 405, 204]);
    for (const answer of answers) expectDeprecated(answer);
    for (const { headers } of answers.slice(2)) expect(headers.allow).toBe('GET, HEAD, OPTIONS');
  });

  test('sends the deprecation headers with 417, and to OPTIONS with a body', async () => {
    const { port, call } = await startApp();
    // undici, which the tests use, refuses to send Expect.
    const [answer] = await converse(port, ['GET /v1/pets/1 HTTP/1.1\r\nHost: a\r\nExpect: a miracle\r\n\r\n']);
    expect(answer?.status).toBe(417);
    expectDeprecated(answer as never);
    for (const type of ['text/plain', 'application/json', null]) {
      const options = await call('OPTIONS', '/v1/pets/1', { body: '{bad', type });
      expect(options).toMatchObject({ status: 204, text: '' });
      expectDeprecated(options);
    }
  });

  test('starts links with BASE_URL', async () => {
    const { call } = await startApp({ baseUrl: 'https://example.com/animals/v1' });
    expect(links((await call('GET', '/v1/pets/1')).headers.link)).toEqual({
      'successor-version': 'https://example.com/animals/v1/pets',
      deprecation: 'https://example.com/animals/docs#animal-store/tag/pets/getPet',
    });
  });

  test('returns 410 operation_removed from 5 December 2030, when POST stops sending Location', async () => {
    const { add, call, setTime } = await startApp();
    setTime(new Date(sunset.getTime() - 1));
    expect((await add({ name: 'Biscuit', categoryId: 7 })).headers.location).toBe('/v1/pets/1');
    expect((await call('GET', '/v1/pets/1')).status).toBe(200);
    setTime(sunset);
    const answer = await call('GET', '/v1/pets/1');
    expect(answer.json).toEqual({
      code: 'operation_removed',
      message: 'This operation has been removed; list animals with GET /pets and its status filter.',
      status: 410,
    });
    expectDeprecated(answer);
    expect((await call('GET', '/v1/pets/x')).status).toBe(410);
    const others = [await call('OPTIONS', '/v1/pets/1'), await call('PUT', '/v1/pets/1')];
    expect(others.map(({ status, headers }) => [status, headers.allow])).toEqual([
      [204, 'OPTIONS'],
      [405, 'OPTIONS'],
    ]);
    expect((await call('GET', '/v1/pets/1', { key: null })).status).toBe(401);
    expect((await add({ name: 'Crumb', categoryId: 7 })).headers.location).toBeUndefined();
  });

  test('returns 200 after 5 December 2030 if the sunset is not enforced', async () => {
    const { add, call, setTime } = await startApp({ enforceSunset: false });
    setTime(sunset);
    expect((await add({ name: 'Biscuit', categoryId: 7 })).headers.location).toBe('/v1/pets/1');
    expect((await call('GET', '/v1/pets/1')).status).toBe(200);
  });
});
