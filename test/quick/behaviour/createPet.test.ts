/** Tests of POST /v1/pets, with and without an Idempotency-Key. */
import { describe, expect, test } from 'vitest';
import { startApp } from '../../support/app.ts';

const biscuit = { name: 'Biscuit', categoryId: 7 };

describe('POST /v1/pets', () => {
  test('returns 201 with the pet, its assigned id and its Location', async () => {
    const { add, call } = await startApp();
    const answer = await add({ ...biscuit, status: 'pending' });
    expect(answer).toMatchObject({ status: 201, json: { id: 1, ...biscuit, status: 'pending' } });
    expect(answer.headers).toMatchObject({
      location: '/v1/pets/1',
      'content-type': 'application/json',
      'cache-control': 'no-store',
    });
    expect(answer.headers['idempotent-replayed']).toBeUndefined();
    expect((await call('GET', answer.headers.location as string)).json).toEqual(answer.json);
    expect((await add(biscuit)).json.id).toBe(2);
  });

  test('returns every digit of categoryId', async () => {
    let id = 0;
    const { call } = await startApp();
    for (const categoryId of ['9007199254740993', '9223372036854775807', '-9223372036854775808', '0', '-1'] as const) {
      const created = await call('POST', '/v1/pets', { body: `{"name":"x","categoryId":${categoryId}}` });
      const text = `{"id":${++id},"name":"x","categoryId":${categoryId},"status":"available"}`;
      expect(created, `${categoryId}`).toMatchObject({ status: 201, text });
      expect((await call('GET', `/v1/pets/${id}`)).text).toBe(text);
      expect((await call('GET', '/v1/pets')).text).toContain(text);
    }
  });

  test('reads categoryId as an integer, however it is written', async () => {
    const { call } = await startApp();
    for (const [written, integer] of [
      ['1.0', '1'],
      ['1e3', '1000'],
      ['1E+3', '1000'],
      ['-0', '0'],
      ['-0.0e5', '0'],
      ['0e999999999', '0'],
      ['12300e-2', '123'],
      ['900719925474099.3e1', '9007199254740993'],
      ['9223372036854775807.000', '9223372036854775807'],
    ] as const) {
      const { status, text } = await call('POST', '/v1/pets', { body: `{"name":"x","categoryId":${written}}` });
      expect([status, text], `${written}`).toEqual([201, expect.stringContaining(`"categoryId":${integer},`)]);
    }
  });

  test('returns 400 invalid_body for categoryId', async () => {
    const { call } = await startApp();
    for (const categoryId of [
      '9223372036854775808',
      '-9223372036854775809',
      '1e19',
      '1e999999999',
      '-1e400',
      '1.5',
      '1e-1',
      '9223372036854775807.5',
      '"1"',
      'true',
      'null',
      '[1]',
      '{}',
    ] as const) {
      expect(
        (await call('POST', '/v1/pets', { body: `{"name":"x","categoryId":${categoryId}}` })).json,
        `${categoryId}`,
      ).toEqual({
        code: 'invalid_body',
        message: 'categoryId must be an integer from -9223372036854775808 to 9223372036854775807.',
        status: 400,
      });
    }
  });

  test('returns 400 invalid_body for name', async () => {
    const { call } = await startApp();
    for (const name of ['""', '1', 'null', '["x"]', '"a\\u0000b"', '"\\ud800"', '"\\udc00\\ud800"'] as const) {
      expect((await call('POST', '/v1/pets', { body: `{"name":${name},"categoryId":1}` })).json, `${name}`).toEqual({
        code: 'invalid_body',
        message: 'name must be a string of 1 to 1,000 characters, without NUL and without lone surrogates.',
        status: 400,
      });
    }
  });

  test('accepts 1,000 of the character as a name, and no more', async () => {
    const { add, call } = await startApp();
    for (const character of ['x', 'é', '\u{1f408}', '\u0001'] as const) {
      const name = character.repeat(1000);
      const { status, headers } = await add({ ...biscuit, name });
      expect(status).toBe(201);
      expect((await call('GET', `${headers.location}`)).json.name).toBe(name);
      expect((await add({ ...biscuit, name: name + character })).json, `${character}`).toEqual({
        code: 'invalid_body',
        message: 'name must be a string of 1 to 1,000 characters, without NUL and without lone surrogates.',
        status: 400,
      });
    }
  });

  test('returns 400 invalid_body for an unknown status', async () => {
    const { add } = await startApp();
    for (const status of ['unknown', '', 'Sold', 'null'] as const) {
      expect((await add({ ...biscuit, status })).json, `${status}`).toMatchObject({
        code: 'invalid_body',
        message: 'status must be one of available, pending, sold.',
      });
    }
  });

  test('returns 400 invalid_body for a body that is no animal', async () => {
    const { call } = await startApp();
    for (const [body, message] of [
      ['{}', 'name is required; categoryId is required.'],
      ['{"name":"x"}', 'categoryId is required.'],
      ['{"categoryId":1}', 'name is required.'],
      ['{"name":"x","categoryId":1,"status":null}', 'status must be one of available, pending, sold.'],
      ['{"name":"x","categoryId":1,"id":5}', '"id" is not a known field.'],
      ['{"name":"x","categoryId":1,"__proto__":{}}', '"__proto__" is not a known field.'],
      ['{"name":"x","categoryId":1,"toString":1}', '"toString" is not a known field.'],
      ['[]', 'The body must be a JSON object.'],
      ['null', 'The body must be a JSON object.'],
      ['"x"', 'The body must be a JSON object.'],
      ['1', 'The body must be a JSON object.'],
      ['', 'The body is missing.'],
    ] as const) {
      expect((await call('POST', '/v1/pets', { body })).json, `${body}`).toEqual({
        code: 'invalid_body',
        message,
        status: 400,
      });
    }
  });

  test('returns 400 invalid_body for no body and no Content-Type', async () => {
    const { call } = await startApp();
    expect((await call('POST', '/v1/pets')).json).toMatchObject({
      code: 'invalid_body',
      message: 'The body is missing.',
    });
  });

  test('returns 400 invalid_json for what is not JSON', async () => {
    const { call } = await startApp();
    for (const body of [
      '{',
      '{"name":"x","categoryId":1}}',
      "{'name':'x'}",
      '{"name":"x","categoryId":01}',
      '{"name":"x","categoryId":NaN}',
      '\ufeff{"name":"x","categoryId":1}',
      '{"name":"x","name":"y","categoryId":1}',
      '{"name":"x","n\\u0061me":"x","categoryId":1}',
    ] as const) {
      const { json } = await call('POST', '/v1/pets', { body });
      expect(json, `${body}`).toMatchObject({
        code: 'invalid_json',
        message: expect.stringMatching(/^The body is not valid JSON: /),
      });
    }
  });

  test('returns 400 for a number of 60,000 digits without computing it', async () => {
    const { call } = await startApp();
    const categoryId = `1${'0'.repeat(60_000)}1`;
    await call('POST', '/v1/pets', { body: `{"name":"x","categoryId":1${'0'.repeat(9)}.5}` });
    const begun = performance.now();
    expect((await call('POST', '/v1/pets', { body: `{"name":"x","categoryId":${categoryId}}` })).json.code).toBe(
      'invalid_body',
    );
    expect(performance.now() - begun).toBeLessThan(5000);
  });

  test('does not quote a long duplicate name in full', async () => {
    const { call } = await startApp();
    const name = JSON.stringify('x'.repeat(20_000));
    expect((await call('POST', '/v1/pets', { body: `{${name}:1,${name}:1}` })).json.message.length).toBeLessThan(200);
  });

  test('names violations of known fields before unknown fields', async () => {
    const { add } = await startApp();
    const others = Object.fromEntries(Array.from({ length: 30 }, (_, index) => [`x${index}`, 1]));
    const { message } = (await add({ ...others, name: '' })).json;
    expect(message).toMatch(
      /^name must be a string .*; categoryId is required; "x0" is not a known field; .*; and 12 more\.$/,
    );
  });

  test('returns 400 invalid_json for bytes that are not UTF-8', async () => {
    const { call } = await startApp();
    const body = Buffer.from('{"name":"\xff","categoryId":1}', 'latin1');
    expect((await call('POST', '/v1/pets', { body })).json).toMatchObject({ code: 'invalid_json' });
  });

  test('returns 400 invalid_parameter with every violation of query, headers and body', async () => {
    const { call } = await startApp();
    const { json } = await call('POST', '/v1/pets?dry=1', { body: {}, headers: { 'idempotency-key': 'a b' } });
    expect(json).toEqual({
      code: 'invalid_parameter',
      message:
        '"dry" is not a known query parameter; Idempotency-Key must be 1 to 255 visible ASCII characters, given once; name is required; categoryId is required.',
      status: 400,
    });
    const { message } = (await call('POST', '/v1/pets?dry=1', { body: [] })).json;
    expect(message).toBe('"dry" is not a known query parameter; the body must be a JSON object.');
  });

  test('returns 413 for a body of more than 64 KiB', async () => {
    const { add } = await startApp();
    expect((await add({ ...biscuit, name: 'x'.repeat(65_000) })).json.code).toBe('invalid_body');
    expect((await add({ ...biscuit, name: 'x'.repeat(66_000) })).json).toMatchObject({
      code: 'payload_too_large',
      message: 'The body is larger than 65,536 bytes.',
      status: 413,
    });
  });

  test('returns 415 for a body that is not JSON in UTF-8', async () => {
    const { call } = await startApp();
    for (const type of [
      'text/plain',
      'application/json; charset=latin1',
      'application/jsonx',
      'application/problem+json',
      // What curl -d sends by itself.
      'application/x-www-form-urlencoded',
      null,
    ]) {
      const answer = await call('POST', '/v1/pets', { body: JSON.stringify(biscuit), type });
      expect(answer.json, String(type)).toEqual({
        code: 'unsupported_media_type',
        message: 'Send the header Content-Type: application/json; the body must be in UTF-8, without a content coding.',
        status: 415,
      });
    }
    const codings = {
      gzip: 415,
      'x-identity': 415,
      identity2: 415,
      'gzip, identity': 415,
      identity: 201,
      Identity: 201,
    };
    for (const [coding, status] of Object.entries(codings)) {
      const headers = { 'content-encoding': coding };
      expect((await call('POST', '/v1/pets', { body: biscuit, headers })).status, coding).toBe(status);
    }
    for (const type of [
      'application/json; charset=UTF-8',
      'Application/JSON;charset="utf-8"',
      'application/json; x=y',
    ]) {
      expect((await call('POST', '/v1/pets', { body: JSON.stringify(biscuit), type })).status, type).toBe(201);
    }
  });
});

describe('POST /v1/pets with Idempotency-Key', () => {
  const retry = { 'idempotency-key': 'first-try' };

  test('replays the 201 with Idempotent-Replayed and adds one pet', async () => {
    const { add, call } = await startApp();
    const first = await add(biscuit, retry);
    const second = await add({ status: 'available', categoryId: 7, name: 'Biscuit' }, retry);
    expect(first.headers['idempotent-replayed']).toBeUndefined();
    expect(second).toMatchObject({
      status: 201,
      text: first.text,
      headers: { 'idempotent-replayed': 'true', location: first.headers.location },
    });
    expect((await call('GET', '/v1/pets')).json).toHaveLength(1);
  });

  test('returns the same 201 to concurrent requests and adds one pet', async () => {
    const { add, call } = await startApp();
    const answers = await Promise.all(Array.from({ length: 20 }, () => add(biscuit, retry)));
    expect(new Set(answers.map(({ status, text }) => `${status} ${text}`)).size).toBe(1);
    expect(answers.filter(({ headers }) => headers['idempotent-replayed'] === undefined)).toHaveLength(1);
    expect((await call('GET', '/v1/pets')).json).toHaveLength(1);
  });

  test('returns 422 idempotency_key_reused for a different body', async () => {
    const { add, call } = await startApp();
    for (const change of [{ name: 'Other' }, { categoryId: 8 }, { status: 'sold' }] as const) {
      await add(biscuit, retry);
      expect((await add({ ...biscuit, ...change }, retry)).json, JSON.stringify(change)).toMatchObject({
        code: 'idempotency_key_reused',
        status: 422,
      });
      expect((await call('GET', '/v1/pets')).json).toHaveLength(1);
    }
  });

  test('adds another pet under another key, for another account, and after 24 hours', async () => {
    const { add, call, store, newKey, setTime } = await startApp();
    const start = new Date('2027-01-01T00:00:00Z');
    setTime(start);
    await add(biscuit, retry);
    await store.accounts.addAccount('others');
    const { key } = await newKey({ account: 'others' });
    const sameAccount = await newKey();
    expect((await call('POST', '/v1/pets', { key: sameAccount.key, body: biscuit, headers: retry })).json.id).toBe(1);
    expect((await call('POST', '/v1/pets', { key, body: biscuit, headers: retry })).json.id).toBe(2);
    expect((await add(biscuit, { 'idempotency-key': 'second-try' })).json.id).toBe(3);
    setTime(new Date(start.getTime() + 24 * 3600_000 - 1));
    expect((await add(biscuit, retry)).json.id).toBe(1);
    setTime(new Date(start.getTime() + 24 * 3600_000));
    expect((await add({ name: 'Anew', categoryId: 1 }, retry)).json).toMatchObject({ id: 4, name: 'Anew' });
  });

  test('does not remember a rejected body', async () => {
    const { add } = await startApp();
    expect((await add({ name: '' }, retry)).status).toBe(400);
    expect((await add(biscuit, retry)).status).toBe(201);
  });

  test('returns 400 invalid_parameter for a malformed key', async () => {
    const { add } = await startApp();
    for (const value of ['', 'a b', 'é', 'x'.repeat(256)] as const) {
      const answer = await add(biscuit, { 'idempotency-key': Buffer.from(value).toString('latin1') });
      expect(answer.json, `${value}`).toEqual({
        code: 'invalid_parameter',
        message: 'Idempotency-Key must be 1 to 255 visible ASCII characters, given once.',
        status: 400,
      });
    }
  });

  test('accepts 255 characters and every visible ASCII character', async () => {
    const { add } = await startApp();
    const visible = Array.from({ length: 94 }, (_, index) => String.fromCharCode(33 + index)).join('');
    for (const value of ['x'.repeat(255), visible])
      expect((await add(biscuit, { 'idempotency-key': value })).status).toBe(201);
  });
});
