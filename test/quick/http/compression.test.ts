/** Tests which responses are compressed: the documents, each coding with its own ETag, and no response to an API key. */
import { gunzipSync } from 'node:zlib';
import { request } from 'undici';
import { describe, expect, test } from 'vitest';
import { startApp, type TestApp } from '../../support/app.ts';
import { figure } from '../../support/tier.ts';

type Headers = Record<string, string | string[] | undefined>;

const documents = ['/openapi.json', '/openapi.yaml', '/quickstart/openapi.json', '/quickstart/openapi.yaml'];

/** Headers that do not depend on the time or the connection. */
function lasting({ date, connection, 'keep-alive': _, 'x-request-id': id, ...headers }: Headers): Headers {
  return headers;
}

async function get(
  { url }: TestApp,
  path: string,
  headers: Record<string, string> = {},
  method: 'GET' | 'HEAD' = 'GET',
) {
  const { statusCode: status, headers: received, body } = await request(url + path, { method, headers });
  return { status, headers: received, bytes: Buffer.from(await body.arrayBuffer()) };
}

describe('a document', () => {
  test.each(documents)('%s has two codings, each with its own ETag and its own 304', async (path) => {
    const app = await startApp();
    const plain = await get(app, path);
    const gzip = await get(app, path, { 'accept-encoding': 'gzip' });
    expect([plain.headers['content-encoding'], gzip.headers['content-encoding']]).toEqual([undefined, 'gzip']);
    expect(gunzipSync(gzip.bytes)).toEqual(plain.bytes);
    expect(gzip.headers.etag).not.toBe(plain.headers.etag);
    figure(`${path}: ${plain.bytes.length} bytes, compressed ${gzip.bytes.length}`);
    for (const [own, other, accepted] of [
      [plain, gzip, 'identity'],
      [gzip, plain, 'gzip, deflate, br'],
    ] as const) {
      const headers = { 'accept-encoding': accepted };
      const { etag, vary } = own.headers;
      expect([vary, own.headers['content-length']]).toEqual(['Accept-Encoding', String(own.bytes.length)]);
      const head = await get(app, path, headers, 'HEAD');
      expect(lasting(head.headers)).toEqual(lasting(own.headers));
      const same = await get(app, path, { ...headers, 'if-none-match': `W/${etag}` });
      expect(same).toMatchObject({ status: 304, headers: { etag, vary } });
      // The client has the other coding, but no longer accepts it.
      const changed = await get(app, path, { ...headers, 'if-none-match': String(other.headers.etag) });
      expect([changed.status, changed.headers.etag]).toEqual([200, etag]);
    }
  });

  test('is compressed if Accept-Encoding names gzip with a weight above 0, and only then', async () => {
    const app = await startApp();
    const accepted = ['gzip', 'GZIP ; q=0.001', 'gzip;q=0.5', 'deflate, gzip;q=1.0, br', 'br;q=0, gzip'];
    const others = ['', 'identity', 'br', 'gzip;q=0', 'gzip;q=0, identity', 'gzip ; q=0.000', 'br, gzip;q=0.0, zstd'];
    for (const [values, coding] of [
      [accepted, 'gzip'],
      [others, undefined],
    ] as const)
      for (const value of values)
        expect(
          (await get(app, documents[0] as string, { 'accept-encoding': value })).headers['content-encoding'],
          value,
        ).toBe(coding);
  });

  test('names Origin in Vary, too, if CORS_ORIGINS is set', async () => {
    const app = await startApp({ corsOrigins: ['https://app.example.com', 'https://other.example.com'] });
    const { headers } = await get(app, '/openapi.json', {
      'accept-encoding': 'gzip',
      origin: 'https://app.example.com',
    });
    expect([headers.vary, headers['content-encoding']]).toEqual(['Origin, Accept-Encoding', 'gzip']);
  });
});

test('responses to an API key, errors and account pages are not compressed', async () => {
  const app = await startApp();
  for (let count = 0; count < 20; count++) await app.add({ name: 'Biscuit'.repeat(10), categoryId: 7 });
  const headers = { 'accept-encoding': 'gzip, br', authorization: `Bearer ${app.key}` };
  for (const path of ['/v1/pets', '/v1/pets/1', '/v1/nowhere', '/account/sign-in']) {
    const answer = await get(app, path, headers);
    expect([path, answer.headers['content-encoding']]).toEqual([path, undefined]);
    expect(String(answer.headers.vary)).not.toContain('Encoding');
  }
});

test('no JSON body ends with a newline: the ETags of pages that clients hold stay valid after an update', async () => {
  const app = await startApp();
  const added = await app.add({ name: 'Biscuit', categoryId: 7 });
  const answers = [
    added,
    await app.call('GET', '/v1/pets'),
    await app.call('GET', '/v1/pets/1'),
    await app.call('GET', '/v1'),
  ];
  for (const { text, json } of answers) expect(text).toBe(JSON.stringify(json));
  expect(answers[1]?.headers.etag).toBe('"pXQtdyVxE51ZGtggNwRks5zVvZR"');
});
