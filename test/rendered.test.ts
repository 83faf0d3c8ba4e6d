import { describe, expect, test } from 'vitest';
import { createRenderedCache, type Rendered } from '../src/http/rendered.ts';
import { openRepository } from '../src/repository/open.ts';
import { startApp } from './support/app.ts';

const page = (text: string): Rendered => ({ body: Buffer.from(text), etag: `"${text}"` });

describe('the cache of rendered answers', () => {
  test('renders once per key and version', async () => {
    let version = 1;
    let rendered = 0;
    const cache = createRenderedCache(() => version);
    const get = async (key: string) => (await cache.get(key, async () => page(`${key}${++rendered}`))).body.toString();
    expect([await get('a'), await get('a'), await get('b')]).toEqual(['a1', 'a1', 'b2']);
    version = 2;
    expect([await get('a'), await get('a'), await get('b')]).toEqual(['a3', 'a3', 'b4']);
  });

  test('does not keep what was rendered while the store moved on', async () => {
    let version = 1;
    const cache = createRenderedCache(() => version);
    const slow = cache.get('a', async () => {
      await Promise.resolve();
      version = 2;
      await cache.get('b', async () => page('b'));
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
    for (let key = 0; key < 20; key++) await get(key);
    await get(19);
    expect(rendered).toBe(20);
    await get(0);
    expect(rendered).toBe(21);
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
    const { file, call } = await startApp();
    const other = openRepository(`sqlite:${file}`, { now: () => new Date() });
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
