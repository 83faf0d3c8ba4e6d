import { afterEach, describe, expect, test, vi } from 'vitest';
import { hashKey, type KnownKey, newSecret } from '../../../src/core/accounts.ts';
import { ApiError } from '../../../src/core/errors.ts';
import { createKeyCache } from '../../../src/http/auth.ts';
import { startApp, type TestApp } from '../../support/app.ts';
import { prefixes, readDocument } from '../../support/described.ts';
import { converse, summaryOf } from '../../support/raw.ts';

const bare = 'Bearer realm="animal-store"';
const invalidToken = `${bare}, error="invalid_token"`;

afterEach(() => {
  vi.useRealTimers();
});

/** Sends a GET with the exact bytes of `headers` (Latin-1) and returns a summary of the response. */
async function sendGet({ port }: TestApp, headers: string): Promise<string> {
  const answers = await converse(port, [`GET /v1/pets HTTP/1.1\r\nHost: a\r\n${headers}\r\n`]);
  return answers.map(summaryOf).join(', ');
}

async function sendEach(server: TestApp, table: Record<string, string>): Promise<Record<string, string>> {
  const answered = Object.entries(table).map(async ([name, headers]) => [name, await sendGet(server, headers)]);
  return Object.fromEntries(await Promise.all(answered));
}

function all(names: object, expected: string): Record<string, string> {
  return Object.fromEntries(Object.keys(names).map((name) => [name, expected]));
}

describe('authentication', () => {
  test('a request without a key gets 401 missing_api_key and a challenge without an error', async () => {
    const { call } = await startApp();
    const answer = await call('GET', '/v1/pets', { key: null });
    expect(answer.headers['www-authenticate']).toBe(bare);
    expect(answer.json).toEqual({
      code: 'missing_api_key',
      message: 'Send your API key in the header Authorization: Bearer <API_KEY>.',
      status: 401,
    });
  });

  test('a well-formed but unknown key gets 401 invalid_api_key', async () => {
    const { call } = await startApp();
    const answer = await call('GET', '/v1/pets', { key: newSecret(false).key });
    expect(answer.headers['www-authenticate']).toBe(invalidToken);
    expect(answer.json).toEqual({ code: 'invalid_api_key', message: 'The API key is not valid here.', status: 401 });
  });

  test('a key gets 401 expired_api_key from the millisecond of its expiry', async () => {
    const { call, newKey, setTime } = await startApp();
    const expiresAt = new Date('2027-01-01T00:00:00Z');
    // Stop the clock: the store computes the lifetime of the key later than the test does.
    setTime(new Date(expiresAt.getTime() - 1));
    const { key } = await newKey({ expiresAt });
    expect((await call('GET', '/v1/pets', { key })).status).toBe(200);
    setTime(expiresAt);
    const answer = await call('GET', '/v1/pets', { key });
    expect(answer.headers['www-authenticate']).toBe(invalidToken);
    expect(answer.json).toEqual({ code: 'expired_api_key', message: 'The API key has expired.', status: 401 });
  });

  test('a revoked key gets 401 revoked_api_key within a second', async () => {
    const { call, newKey, store } = await startApp();
    const { key, id } = await newKey();
    expect((await call('GET', '/v1/pets', { key })).status).toBe(200);
    await store.accounts.revokeKey(id);
    const answer = await vi.waitFor(
      async () => {
        const rejected = await call('GET', '/v1/pets', { key });
        expect(rejected.status).toBe(401);
        return rejected;
      },
      { timeout: 1000, interval: 50 },
    );
    expect(answer.headers['www-authenticate']).toBe(invalidToken);
    expect(answer.json).toEqual({ code: 'revoked_api_key', message: 'The API key has been revoked.', status: 401 });
  });

  test('GET without pets:read and POST without pets:write get 403 insufficient_scope', async () => {
    const { call, newKey } = await startApp();
    const reader = (await newKey({ scopes: ['pets:read'] })).key;
    const writer = (await newKey({ scopes: ['pets:write'] })).key;
    const body = { name: 'Biscuit', categoryId: 7 };

    expect((await call('POST', '/v1/pets', { key: writer, body })).status).toBe(201);
    for (const target of ['/v1/pets', '/v1/pets/1']) {
      expect((await call('GET', target, { key: reader })).status).toBe(200);
      const answer = await call('GET', target, { key: writer });
      expect(answer.json).toEqual({
        code: 'insufficient_scope',
        message: 'The API key lacks the scope pets:read.',
        status: 403,
      });
      expect(answer.headers['www-authenticate']).toBe(`${bare}, error="insufficient_scope", scope="pets:read"`);
      expect((await call('HEAD', target, { key: writer })).status).toBe(403);
    }
    const answer = await call('POST', '/v1/pets', { key: reader, body });
    expect(answer.json).toMatchObject({
      code: 'insufficient_scope',
      message: 'The API key lacks the scope pets:write.',
    });
    expect(answer.headers['www-authenticate']).toBe(`${bare}, error="insufficient_scope", scope="pets:write"`);
  });

  test('a request gets 503 service_unavailable, not 401, if the store cannot look up its key', async () => {
    const { store, call } = await startApp();
    store.accounts.findKey = () => Promise.reject(new ApiError('service_unavailable'));
    const answer = await call('GET', '/v1/pets', { key: newSecret(false).key });
    expect(answer.json).toMatchObject({ code: 'service_unavailable', status: 503 });
    expect(answer.headers).toMatchObject({ 'retry-after': '1' });
    expect(answer.headers['www-authenticate']).toBeUndefined();
  });
});

describe('the Authorization header', () => {
  test('may have the scheme in any case and several spaces before the key (RFC 6750, RFC 9110)', async () => {
    const server = await startApp();
    const table = Object.fromEntries(
      Object.entries({
        plain: 'Bearer KEY',
        'lower-case scheme': 'bearer KEY',
        'upper-case scheme': 'BEARER KEY',
        'mixed-case scheme': 'bEaReR KEY',
        'two spaces': 'Bearer  KEY',
        'many spaces': `Bearer${' '.repeat(100)}KEY`,
        'optional spaces around the value': '   Bearer KEY   ',
        'optional tabs around the value': '\tBearer KEY\t',
      }).map(([name, value]) => [name, `Authorization:${value.replace('KEY', server.key)}\r\n`]),
    );
    table['header name in upper case'] = `AUTHORIZATION: Bearer ${server.key}\r\n`;
    table['header name in lower case'] = `authorization: Bearer ${server.key}\r\n`;
    expect(await sendEach(server, table)).toEqual(all(table, '200'));
  });

  test('gets 401 missing_api_key without a bearer token', async () => {
    const server = await startApp();
    const basic = Buffer.from(`user:${server.key}`).toString('base64');
    const table = Object.fromEntries(
      Object.entries({
        empty: '',
        spaces: '   ',
        'only the scheme': 'Bearer',
        'the scheme and a space': 'Bearer ',
        'only the key': 'KEY',
        'no space': 'BearerKEY',
        'a tab instead of the space': 'Bearer\tKEY',
        'a colon instead of the space': 'Bearer:KEY',
        'an equals sign instead of the space': 'Bearer=KEY',
        'a no-break space instead of the space': 'Bearer\xa0KEY',
        'a no-break space in UTF-8': 'Bearer\xc2\xa0KEY',
        'a no-break space before the scheme': '\xa0Bearer KEY',
        'scheme in quotes': '"Bearer" KEY',
        'everything in quotes': '"Bearer KEY"',
        'scheme cut short': 'Beare KEY',
        'scheme with an extra letter': 'Bearers KEY',
        'full-width B in the scheme': '\xef\xbc\xa2earer KEY',
        Basic: `Basic ${basic}`,
        'Basic with the key': 'Basic KEY',
        Digest: 'Digest username="KEY"',
        Token: 'Token KEY',
        ApiKey: 'ApiKey KEY',
        DPoP: 'DPoP KEY',
        'Basic before Bearer': `Basic ${basic}, Bearer KEY`,
        'a comma before Bearer': ', Bearer KEY',
        'the word null': 'null',
      }).map(([name, value]) => [name, `Authorization: ${value.replace('KEY', server.key)}\r\n`]),
    );
    table['no such header'] = '';
    table['the key as X-API-Key'] = `X-API-Key: ${server.key}\r\n`;
    table['the key as Proxy-Authorization'] = `Proxy-Authorization: Bearer ${server.key}\r\n`;
    table['the key as a cookie'] = `Cookie: Authorization=Bearer ${server.key}\r\n`;
    table['an underscore in the header name'] = `Authorization_: Bearer ${server.key}\r\n`;
    expect(await sendEach(server, table)).toEqual(all(table, '401 missing_api_key'));
  });

  test('gets 401 invalid_api_key unless its bearer token is exactly a known key', async () => {
    const server = await startApp();
    const { key } = server;
    const swapped = `${key.slice(0, 20)}${key[20] === 'a' ? 'b' : 'a'}${key.slice(21)}`;
    const table = Object.fromEntries(
      Object.entries({
        'another key': newSecret(false).key,
        'the last letter cut off': key.slice(0, -1),
        'the first letter cut off': key.slice(1),
        'half of the key': key.slice(0, 24),
        'only the prefix': 'ast_test_',
        'one letter changed': swapped,
        'wrong checksum': `${key.slice(0, -6)}000000`,
        'in upper case': key.toUpperCase(),
        'in lower case': key.toLowerCase(),
        backwards: [...key].reverse().join(''),
        'prefix of production': key.replace('test', 'live'),
        'no prefix': key.slice(9),
        'twice the prefix': `ast_test_${key}`,
        'hyphens for underscores': key.replaceAll('_', '-'),
        'its hash': hashKey(key).toString('hex'),
        'in Base64': Buffer.from(key).toString('base64'),
        'an extra letter': `${key}x`,
        'an extra zero': `${key}0`,
        'twice without a space': key + key,
        'a comma after it': `${key},`,
        'a semicolon after it': `${key};`,
        'an equals sign after it': `${key}=`,
        'a full stop after it': `${key}.`,
        'a slash after it': `${key}/`,
        'percent-encoded': key.replaceAll('_', '%5F'),
        'a percent-encoded zero after it': `${key}%00`,
        'in double quotes': `"${key}"`,
        'in single quotes': `'${key}'`,
        'in angle brackets': `<${key}>`,
        'in braces': `{${key}}`,
        'with a name': `token=${key}`,
        'a space within': `${key.slice(0, 20)} ${key.slice(20)}`,
        'a tab within': `${key.slice(0, 20)}\t${key.slice(20)}`,
        'a tab before it': `\t${key}`,
        'a space and a tab before it': ` \t${key}`,
        'a no-break space before it': `\xa0${key}`,
        'a no-break space after it': `${key}\xa0`,
        'a no-break space in UTF-8 after it': `${key}\xc2\xa0`,
        'a byte order mark before it': `\xef\xbb\xbf${key}`,
        'a zero-width space after it': `${key}\xe2\x80\x8b`,
        'a next-line character after it': `${key}\x85`,
        'Cyrillic letters': `ast_test_${'\xd0\xb0'.repeat(36)}`,
        'full-width letters': Buffer.from(key.replace('ast', '\uff41\uff53\uff54')).toString('latin1'),
        'an accent': key.replace('a', '\xe4'),
        'Bearer twice': `Bearer ${key}`,
        'Bearer twice, joined': `${key} Bearer`,
        'two keys': `${key} ${key}`,
        'two keys, joined by a comma': `${key},${key}`,
        'two credentials': `${key}, Bearer ${key}`,
        'two credentials, the second Basic': `${key}, Basic x`,
        'a parameter after it': `${key} realm="animal-store"`,
        'the word null': 'null',
        'the word undefined': 'undefined',
        'a placeholder': '<API_KEY>',
        'an SQL text': "'OR'1'='1",
        'a letter': 'x',
        'a wildcard': '*',
        '8,000 letters': 'x'.repeat(8000),
        'a JSON Web Token': 'eyJhbGciOiJub25lIn0.eyJzdWIiOiJ4In0.',
      }).map(([name, value]) => [name, `Authorization: Bearer ${value}\r\n`]),
    );
    table['the header twice'] = `Authorization: Bearer ${key}\r\n`.repeat(2);
    table['the header twice, once bad'] = `Authorization: Bearer ${key}\r\nAuthorization: Bearer x\r\n`;
    table['the header twice, once Basic'] = `Authorization: Bearer ${key}\r\nAuthorization: Basic x\r\n`;
    expect(await sendEach(server, table)).toEqual(all(table, '401 invalid_api_key'));
  });

  test('gets 400 bad_request if it is malformed', async () => {
    const server = await startApp();
    const { key } = server;
    const table = {
      'NUL after the key': `Authorization: Bearer ${key}\0\r\n`,
      'line break within': `Authorization: Bearer\r\n ${key}\r\n`,
      'space before the colon': `Authorization : Bearer ${key}\r\n`,
      'control character before the key': `Authorization: Bearer \x01${key}\r\n`,
    };
    expect(await sendEach(server, table)).toEqual(all(table, '400 bad_request'));
  });

  test.each([true, false])('gets 401 if its key is for the other kind of deployment (production: %s)', async (live) => {
    const { call, newKey } = await startApp({ live });
    const own = await newKey();
    const others = await newKey({ live: !live });
    expect(own.key).toMatch(live ? /^ast_live_/ : /^ast_test_/);
    expect((await call('GET', '/v1/pets', { key: own.key })).status).toBe(200);
    const message = live
      ? 'The API key is not one of production: keys of production start with ast_live_.'
      : 'The API key is one of production, and this is another deployment: its keys start with ast_test_.';
    // The prefix alone decides: the response to a key that exists and to one that does not is the same.
    for (const key of [others.key, newSecret(!live).key, live ? 'ast_test_x' : 'ast_live_x']) {
      const { headers, json } = await call('GET', '/v1/pets', { key });
      expect(headers['www-authenticate']).toBe(invalidToken);
      expect(json).toEqual({ code: 'invalid_api_key', message, status: 401 });
    }
  });
});

describe('every operation', () => {
  const operations = (['openapi.yaml', 'openapi.quickstart.yaml'] as const).flatMap((name) =>
    Object.entries(readDocument(name).paths).flatMap(([path, item]) =>
      Object.keys(item).map(
        (method) => [method.toUpperCase(), prefixes[name] + path.replace(/\{\w+\}/g, '1')] as const,
      ),
    ),
  );

  test('is in the OpenAPI documents, with HEAD for each GET and OPTIONS for each path', () => {
    const pathsOf = (wanted: string) => operations.filter(([method]) => method === wanted).map(([, path]) => path);
    expect(pathsOf('GET')).toEqual(expect.arrayContaining(['/v1/pets', '/v1/pets/1', '/v1/store/orders']));
    expect(pathsOf('POST')).toEqual(expect.arrayContaining(['/v1/pets', '/quickstart/messages']));
    expect(pathsOf('HEAD')).toEqual(pathsOf('GET'));
    expect(pathsOf('OPTIONS')).toEqual([...new Set(operations.map(([, path]) => path))]);
  });

  test('returns 401 without a key and with an invalid key', async () => {
    const { call } = await startApp();
    for (const [method, path] of operations) {
      for (const [key, code] of [
        [null, 'missing_api_key'],
        ['x', 'invalid_api_key'],
      ] as const) {
        const answer = await call(method, path, { key, ...(method === 'POST' && { body: '{' }) });
        const where = [method, path, key];
        expect([...where, answer.status]).toEqual([...where, 401]);
        if (method !== 'HEAD') expect([...where, answer.json]).toMatchObject([...where, { code, status: 401 }]);
      }
    }
  });

  test('returns 401 without a key for every method', async () => {
    const { call } = await startApp();
    for (const [, path] of operations) {
      for (const method of ['OPTIONS', 'HEAD', 'PUT', 'DELETE', 'TRACE', 'PROPFIND'])
        expect([method, path, (await call(method, path, { key: null })).status]).toEqual([method, path, 401]);
      expect((await call('OPTIONS', path)).status).toBe(204);
      expect((await call('DELETE', path)).status).toBe(405);
    }
  });

  test('returns 401 before it reads the body', async () => {
    const { port } = await startApp();
    const head = 'Host: a\r\nContent-Type: text/plain\r\nContent-Length: 1000000\r\n';
    for (const path of ['/v1/pets', '/quickstart/messages']) {
      const answers = await converse(port, [`POST ${path} HTTP/1.1\r\n${head}\r\n`]);
      expect(answers.map(summaryOf)).toEqual(['401 missing_api_key']);
    }
  });
});

describe('the usage of a key', () => {
  test('fails no request if it cannot be recorded; the log has the error', async () => {
    const { app, store, call, log } = await startApp();
    store.accounts.recordUses = () => Promise.reject(new Error('the disk is full'));
    expect((await call('GET', '/v1/pets')).status).toBe(200);
    await app.close();
    expect(log()).toContain('could not record the use of API keys');
    expect(log()).toContain('the disk is full');
  });
});

describe('the key cache', () => {
  test('looks up a key at most twice a second', async () => {
    vi.useFakeTimers({ toFake: ['performance'] });
    const { store, call } = await startApp();
    const findKey = vi.spyOn(store.accounts, 'findKey');
    for (let count = 0; count < 3; count++) await call('GET', '/v1/store/orders');
    expect(findKey).toHaveBeenCalledTimes(1);
    vi.advanceTimersByTime(500);
    for (let count = 0; count < 3; count++) await call('GET', '/v1/store/orders');
    expect(findKey).toHaveBeenCalledTimes(2);
  });

  test('holds at most 10,000 keys', async () => {
    const { recall, remember } = createKeyCache();
    const key = {} as KnownKey;
    const now = performance.now();
    for (let count = 1; count <= 10_000; count++) remember(`Bearer ${count}`, key, now);
    expect([recall('Bearer 1'), recall('Bearer 10000')]).toEqual([key, key]);
    remember('Bearer 10001', key, now);
    expect([recall('Bearer 1'), recall('Bearer 10001')]).toEqual([undefined, key]);
  });
});
