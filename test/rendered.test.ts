import { describe, expect, test } from 'vitest';
import { createRenderedCache, render as page } from '../src/http/rendered.ts';
import { openRepository } from '../src/repository/open.ts';
import { startApp } from './support/app.ts';

describe('the cache of rendered answers', () => {
  test('keeps what is asked for a second time in one version', async () => {
    let version = 1;
    let rendered = 0;
    const cache = createRenderedCache(() => version);
    const get = async (key: string) => (await cache.get(key, async () => page(`${key}${++rendered}`))).body.toString();
    expect([await get('a'), await get('a'), await get('a'), await get('b')]).toEqual(['a1', 'a2', 'a2', 'b3']);
    version = 2;
    expect([await get('a'), await get('a'), await get('a'), await get('b')]).toEqual(['a4', 'a5', 'a5', 'b6']);
    expect(cache.use()).toEqual({ hits: 2, misses: 6 });
  });

  test('keeps nothing where the store tells no version', async () => {
    const cache = createRenderedCache(undefined);
    let rendered = 0;
    for (let asked = 1; asked <= 3; asked++) {
      expect((await cache.get('a', async () => page(`${++rendered}`))).body.toString()).toBe(String(asked));
    }
    expect(cache.use()).toEqual({ hits: 0, misses: 3 });
  });

  test('an ETag is the first 162 bits of the SHA-256 of the bytes', () => {
    // FIPS 180-4's example, in base64url.
    expect(page('abc').etag).toBe('"ungWv48Bz-pBQUDeXa4iI7ADYaO"');
  });

  test('does not keep what was rendered while the store moved on', async () => {
    let version = 1;
    const cache = createRenderedCache(() => version);
    const slow = cache.get('a', async () => {
      await Promise.resolve();
      version = 2;
      await cache.get('a', async () => page('newer'));
      return page('old');
    });
    expect((await slow).body.toString()).toBe('old');
    expect((await cache.get('a', async () => page('new'))).body.toString()).toBe('new');
  });

  test('keeps no failure', async () => {
    const cache = createRenderedCache(() => 1);
    await expect(cache.get('a', () => Promise.reject(new Error('once')))).rejects.toThrow('once');
    expect((await cache.get('a', async () => page('a'))).body.toString()).toBe('a');
  });

  test('is bounded: the least used go first', async () => {
    const cache = createRenderedCache(() => 1);
    let rendered = 0;
    const get = (key: number) =>
      cache.get(String(key), async () => {
        rendered += 1;
        return page('x'.repeat(1024 * 1024));
      });
    for (const _time of ['first', 'second']) for (let key = 0; key < 20; key++) await get(key);
    expect(rendered).toBe(40);
    await get(19);
    expect(rendered).toBe(40);
    await get(0);
    expect(rendered).toBe(41);
  });

  test('remembers the last ten thousand that were asked for once, at most', async () => {
    const cache = createRenderedCache(() => 1);
    let rendered = 0;
    const get = async (key: string) => {
      await cache.get(key, async () => page(`${++rendered}`));
      return rendered;
    };
    await get('first');
    for (let key = 0; key < 10_000; key++) await get(String(key));
    expect([await get('first'), await get('first'), await get('first')]).toEqual([10_002, 10_003, 10_003]);
  });
});

describe('no reader sees a page older than an acknowledged write', () => {
  test('of this process', async () => {
    const { add, call } = await startApp();
    for (let count = 1; count <= 30; count++) {
      await call('GET', '/v1/pets?limit=100');
      await add({ name: `pet ${count}`, categoryId: 1 });
      expect((await call('GET', '/v1/pets?limit=100')).json).toHaveLength(count);
    }
  });

  test('of another connection, as another process has it', async () => {
    const { databaseUrl, call } = await startApp();
    const other = await openRepository(databaseUrl, { now: () => new Date() });
    try {
      for (let count = 1; count <= 30; count++) {
        expect((await call('GET', `/v1/pets/${count}`)).status).toBe(404);
        await call('GET', '/v1/pets?limit=100');
        await other.pets.add({ name: `pet ${count}`, categoryId: 1n, status: 'sold' });
        expect((await call('GET', '/v1/pets?limit=100')).json).toHaveLength(count);
        expect((await call('GET', `/v1/pets/${count}`)).status).toBe(200);
      }
    } finally {
      await other.close();
    }
  });
});
