/** Tests which responses are compressed: the documents, each coding with its own ETag, and no response to an API key. */
import { gunzipSync } from 'node:zlib';
import { request } from 'undici';
import { expect, test } from 'vitest';
import { startApp, type TestApp } from '../../support/app.ts';

async function get({ url }: TestApp, path: string, headers: Record<string, string> = {}) {
  const { statusCode: status, headers: received, body } = await request(url + path, { headers });
  return { status, headers: received, bytes: Buffer.from(await body.arrayBuffer()) };
}

test('each document has two codings, each with its own ETag and its own 304', async () => {
  const app = await startApp({ corsOrigins: ['https://app.example.com'] });
  for (const path of ['/openapi.json', '/quickstart/openapi.yaml']) {
    const plain = await get(app, path);
    const gzip = await get(app, path, { 'accept-encoding': 'gzip' });
    expect(gunzipSync(gzip.bytes)).toEqual(plain.bytes);
    for (const [own, other, accepted] of [
      [plain, gzip, 'identity'],
      [gzip, plain, 'gzip, deflate, br'],
    ] as const) {
      const { etag, vary } = own.headers as { etag: string; vary: string };
      expect([vary, own.headers['content-length']]).toEqual(['Origin, Accept-Encoding', String(own.bytes.length)]);
      const ask = (held: unknown) => get(app, path, { 'accept-encoding': accepted, 'if-none-match': String(held) });
      expect(await ask(`W/${etag}`)).toMatchObject({ status: 304, headers: { etag, vary } });
      // The client has the other coding, but no longer accepts it.
      expect((await ask(other.headers.etag)).status).toBe(200);
    }
  }
});

test('a document is compressed if Accept-Encoding names gzip with a weight above 0; responses to a key never are', async () => {
  const app = await startApp();
  await app.add({ name: 'Biscuit', categoryId: 7 });
  const codingOf = async (path: string, accepted: string) =>
    (await get(app, path, { 'accept-encoding': accepted, authorization: `Bearer ${app.key}` })).headers[
      'content-encoding'
    ];
  for (const accepted of ['GZIP ; q=0.001', 'deflate, gzip;q=1.0, br', 'br;q=0, gzip'])
    expect(await codingOf('/openapi.json', accepted), accepted).toBe('gzip');
  for (const accepted of ['', 'br', 'gzip ; q=0.000', 'br, gzip;q=0, zstd'])
    expect(await codingOf('/openapi.json', accepted), accepted).toBeUndefined();
  for (const path of ['/v1/pets', '/v1/pets/1', '/v1/nowhere', '/account/sign-in'])
    expect(await codingOf(path, 'gzip, br'), path).toBeUndefined();

  // The ETags of pages that clients hold stay valid after an update.
  expect((await app.get('/v1/pets')).headers.etag).toBe('"pXQtdyVxE51ZGtggNwRks5zVvZR"');
});
