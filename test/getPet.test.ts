import { describe, expect, test } from 'vitest';
import { type JsonAnswer, startApp } from './support/app.ts';
import { links } from './support/links.ts';

const sunset = new Date('2030-12-05T00:00:00Z');

function expectAnnounced({ headers }: JsonAnswer): void {
  expect(headers).toMatchObject({ deprecation: '@1795132800', sunset: 'Thu, 05 Dec 2030 00:00:00 GMT' });
  expect(links(headers.link)).toEqual({
    'successor-version': '/v1/pets',
    deprecation: '/docs#animal-store/tag/pets/getPet',
  });
}

describe('GET /v1/pets/{petId}', () => {
  test('200: the animal', async () => {
    const { add, call } = await startApp();
    const { text } = await add({ name: 'Biscuit', categoryId: 7, status: 'sold' });
    const answer = await call('GET', '/v1/pets/1');
    expect(answer).toMatchObject({ status: 200, text });
    expectAnnounced(answer);
  });

  test('200 to HEAD, 304 to If-None-Match', async () => {
    const { add, call } = await startApp();
    await add({ name: 'Biscuit', categoryId: 7 });
    const { etag } = (await call('HEAD', '/v1/pets/1')).headers;
    const answer = await call('GET', '/v1/pets/1', { headers: { 'if-none-match': etag as string } });
    expect(answer).toMatchObject({ status: 304, text: '', headers: { etag } });
    expectAnnounced(answer);
  });

  test.each(['2', '0', '-0', '-1', '9007199254740993', '9223372036854775807', '-9223372036854775808', '%32'])(
    '404 pet_not_found: %s',
    async (id) => {
      const { add, call } = await startApp();
      await add({ name: 'Biscuit', categoryId: 7 });
      const answer = await call('GET', `/v1/pets/${id}`);
      expect(answer).toMatchObject({ status: 404, json: { code: 'pet_not_found' } });
      expectAnnounced(answer);
    },
  );

  test.each([
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
  ])('400 invalid_parameter: %s', async (id) => {
    const { call } = await startApp();
    const answer = await call('GET', `/v1/pets/${id}`);
    expect(answer.json).toEqual({
      code: 'invalid_parameter',
      message: 'petId must be an integer from -9223372036854775808 to 9223372036854775807.',
      status: 400,
    });
    expectAnnounced(answer);
  });

  test('400 invalid_parameter: an unknown query parameter', async () => {
    const { call } = await startApp();
    expect((await call('GET', '/v1/pets/1?fields=name')).json).toMatchObject({ code: 'invalid_parameter' });
  });

  test('401, 403, 405 and OPTIONS announce the deprecation too', async () => {
    const { call, newKey } = await startApp();
    const { key } = await newKey({ scopes: ['pets:write'] });
    const answers = [
      await call('GET', '/v1/pets/1', { key: null }),
      await call('GET', '/v1/pets/1', { key }),
      await call('DELETE', '/v1/pets/1'),
      await call('OPTIONS', '/v1/pets/1'),
    ];
    expect(answers.map(({ status }) => status)).toEqual([401, 403, 405, 204]);
    for (const answer of answers) expectAnnounced(answer);
    for (const { headers } of answers.slice(2)) expect(headers.allow).toBe('GET, HEAD, OPTIONS');
  });

  test('417 announces it too, and so does OPTIONS with a body that nobody reads', async () => {
    const { app, call } = await startApp();
    // The suite's client refuses to send Expect.
    const { statusCode, headers } = await app.inject({ url: '/v1/pets/1', headers: { expect: 'a miracle' } });
    expect(statusCode).toBe(417);
    expectAnnounced({ headers } as never);
    for (const type of ['text/plain', 'application/json', null]) {
      const options = await call('OPTIONS', '/v1/pets/1', { body: '{bad', type });
      expect(options).toMatchObject({ status: 204, text: '' });
      expectAnnounced(options);
    }
  });

  test('links begin with the public base address', async () => {
    const { call } = await startApp({ baseUrl: 'https://example.com/animals/v1' });
    expect(links((await call('GET', '/v1/pets/1')).headers.link)).toEqual({
      'successor-version': 'https://example.com/animals/v1/pets',
      deprecation: 'https://example.com/animals/docs#animal-store/tag/pets/getPet',
    });
  });

  test('410 operation_removed from 5 December 2030 on, and no Location any more', async () => {
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
    expectAnnounced(answer);
    expect((await call('GET', '/v1/pets/x')).status).toBe(410);
    expect((await call('GET', '/v1/pets/1', { key: null })).status).toBe(401);
    expect((await add({ name: 'Crumb', categoryId: 7 })).headers.location).toBeUndefined();
  });

  test('200 after 5 December 2030 where the sunset is not enforced', async () => {
    const { add, call, setTime } = await startApp({ enforceSunset: false });
    setTime(sunset);
    expect((await add({ name: 'Biscuit', categoryId: 7 })).headers.location).toBe('/v1/pets/1');
    expect((await call('GET', '/v1/pets/1')).status).toBe(200);
  });
});
