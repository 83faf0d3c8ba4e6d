/** Tests of GET /v1/pets: pages, filters, ETags and errors. */
import { describe, expect, test } from 'vitest';
import type { PetStatus } from '../../../src/core/pets.ts';
import { startApp, type TestApp } from '../../support/app.ts';
import { follow, links } from '../../support/links.ts';
import { runSql } from '../../support/store.ts';

const statuses: PetStatus[] = ['available', 'pending', 'sold'];

/** Adds pets 1 to `count`, with the three statuses in turn. */
async function stock({ store }: TestApp, count: number): Promise<void> {
  const pets = Array.from({ length: count }, (_, index) => ({
    name: `pet ${index + 1}`,
    categoryId: BigInt(index),
    status: statuses[index % 3] as PetStatus,
  }));
  await Promise.all(pets.map((pet) => store.pets.add(pet)));
}

const ids = (pets: { id: number }[]) => pets.map(({ id }) => id);

describe('GET /v1/pets', () => {
  test('returns a bare array, which is empty if there are no pets', async () => {
    const { call } = await startApp();
    const answer = await call('GET', '/v1/pets');
    expect(answer).toMatchObject({ status: 200, text: '[]' });
    expect(answer.headers).toMatchObject({
      'content-type': 'application/json',
      'cache-control': 'private, no-cache',
      vary: 'Authorization',
      link: '</v1/pets?limit=20>; rel="first"',
    });
  });

  test('returns pets in ascending order of id, 20 unless limit is given', async () => {
    const app = await startApp();
    await stock(app, 101);
    expect(ids((await app.call('GET', '/v1/pets')).json)).toEqual(Array.from({ length: 20 }, (_, index) => index + 1));
    expect((await app.call('GET', '/v1/pets?limit=1')).json).toEqual([
      { id: 1, name: 'pet 1', categoryId: 0, status: 'available' },
    ]);
    expect((await app.call('GET', '/v1/pets?limit=100')).json).toHaveLength(100);
  });

  test('returns only pets with that status', async () => {
    const app = await startApp();
    await stock(app, 12);
    for (const status of statuses) {
      const { json } = await app.call('GET', `/v1/pets?status=${status}`);
      expect(json).toHaveLength(4);
      expect(new Set(json.map((pet: { status: string }) => pet.status)), `${status}`).toEqual(new Set([status]));
    }
  });

  test('links through all pages, keeps limit and status, and ends without rel="next"', async () => {
    const app = await startApp();
    await stock(app, 30);
    const pages = await follow(app, '/v1/pets?limit=4&status=sold');
    expect(pages.map(({ json }) => ids(json))).toEqual([
      [3, 6, 9, 12],
      [15, 18, 21, 24],
      [27, 30],
    ]);
    expect(pages.map(({ headers }) => Object.keys(links(headers.link)))).toEqual([
      ['next', 'first'],
      ['next', 'first'],
      ['first'],
    ]);
    expect(links(pages[2]?.headers.link).first).toBe('/v1/pets?limit=4&status=sold');
  });

  test('sends no rel="next" with a last page that is exactly full', async () => {
    const app = await startApp();
    await stock(app, 4);
    const [first, second, ...others] = await follow(app, '/v1/pets?limit=2');
    expect([ids(first?.json), ids(second?.json), others]).toEqual([[1, 2], [3, 4], []]);
  });

  test('returns animals of an earlier release, whose names may be longer than the limit', async () => {
    const app = await startApp();
    const longest = 'x'.repeat(65_000);
    await runSql(
      app.databaseUrl,
      `WITH RECURSIVE number (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM number WHERE i < 120)
       INSERT INTO pet (id, name, category_id, status) SELECT i, i || '${longest}', 7, 'sold' FROM number`,
    );
    const pets = Array.from({ length: 120 }, (_, index) => {
      return { id: index + 1, name: `${index + 1}${longest}`, categoryId: 7, status: 'sold' };
    });
    for (const path of ['/v1/pets?limit=100', '/v1/pets?limit=100&status=sold']) {
      const found = (await follow(app, path)).flatMap(({ json }) => json);
      expect(ids(found)).toEqual(ids(pets));
      expect(found.every(({ name }, index) => name === pets[index]?.name)).toBe(true);
    }
    expect((await app.call('GET', '/v1/pets/120')).json).toEqual(pets.at(-1));
    expect((await app.add({ name: 'x', categoryId: 7 })).json.id).toBe(121);
  });

  test('returns 304 if If-None-Match holds the current ETag of the page', async () => {
    const app = await startApp();
    await stock(app, 3);
    const { headers } = await app.call('GET', '/v1/pets?limit=2');
    const etag = headers.etag as string;
    expect(etag).toMatch(/^"[\w-]+"$/);
    for (const condition of [etag, `W/${etag}`, `"other", ${etag}`, `"a,b",W/${etag} , "c"`, '*', ' * ']) {
      const answer = await app.call('GET', '/v1/pets?limit=2', { headers: { 'if-none-match': condition } });
      expect(answer, condition).toMatchObject({ status: 304, text: '' });
      expect(answer.headers).toMatchObject({ etag, link: headers.link, 'cache-control': 'private, no-cache' });
    }
    for (const condition of [
      '"other"',
      etag.slice(1, -1),
      'W/"other"',
      '',
      `w/${etag}`,
      `x${etag}`,
      `${etag}x`,
      `*, ${'"a"'}`,
    ]) {
      const answer = await app.call('GET', '/v1/pets?limit=2', { headers: { 'if-none-match': condition } });
      expect(answer.status, condition).toBe(200);
    }
    await app.add({ name: 'new', categoryId: 1 });
    expect((await app.call('GET', '/v1/pets?limit=2', { headers: { 'if-none-match': etag } })).status).toBe(304);
    expect((await app.call('GET', '/v1/pets', { headers: { 'if-none-match': etag } })).status).toBe(200);
  });

  test('returns 400 invalid_parameter for what breaks a rule of its parameter', async () => {
    const { call } = await startApp();
    for (const [query, message] of [
      ['limit=0', 'limit must be an integer from 1 to 100.'],
      ['limit=101', 'limit must be an integer from 1 to 100.'],
      ['limit=-1', 'limit must be an integer from 1 to 100.'],
      ['limit=1.0', 'limit must be an integer from 1 to 100.'],
      ['limit=1e1', 'limit must be an integer from 1 to 100.'],
      ['limit=01', 'limit must be an integer from 1 to 100.'],
      ['limit=%2B1', 'limit must be an integer from 1 to 100.'],
      ['limit=', 'limit must be an integer from 1 to 100.'],
      ['limit=true', 'limit must be an integer from 1 to 100.'],
      ['limit=99999999999999999999', 'limit must be an integer from 1 to 100.'],
      ['limit=1&limit=2', 'limit is given more than once.'],
      ['status=unknown', 'status must be one of available, pending, sold.'],
      ['status=', 'status must be one of available, pending, sold.'],
      ['status=Sold', 'status must be one of available, pending, sold.'],
      ['status=sold&status=sold', 'status is given more than once.'],
      ['offset=1', '"offset" is not a known query parameter.'],
      ['__proto__=1', '"__proto__" is not a known query parameter.'],
      ['constructor=1', '"constructor" is not a known query parameter.'],
      [`${'x'.repeat(80)}=1`, `"${'x'.repeat(64)}…" is not a known query parameter.`],
    ] as const) {
      expect((await call('GET', `/v1/pets?${query}`)).json, `${query}`).toEqual({
        code: 'invalid_parameter',
        message,
        status: 400,
      });
    }
  });

  test('names every violation, at most 20, in 400 invalid_parameter', async () => {
    const { call } = await startApp();
    const { json } = await call('GET', '/v1/pets?limit=x&status=y&cursor=z&page=1');
    expect(json).toMatchObject({ code: 'invalid_parameter' });
    expect(json.message.split('; ')).toEqual([
      'limit must be an integer from 1 to 100',
      'status must be one of available, pending, sold',
      'cursor must be copied unchanged from the Link header of a list response',
      '"page" is not a known query parameter.',
    ]);
    const many = Array.from({ length: 25 }, (_, index) => `x${index}=1`).join('&');
    expect((await call('GET', `/v1/pets?${many}`)).json.message).toMatch(/; and 5 more\.$/);
  });

  test('returns 400 invalid_cursor for what no Link header has', async () => {
    const { call } = await startApp();
    for (const cursor of [
      '',
      'x',
      'YWZ0ZXI6',
      'YWZ0ZXI6MA',
      'YWZ0ZXI6LTE',
      'YWZ0ZXI6MQ==',
      'YWZ0ZXI6MR',
      'YWZ0ZXI6MDE',
      '****',
      Buffer.from('after:99999999999999999').toString('base64url'),
    ] as const) {
      expect((await call('GET', `/v1/pets?cursor=${encodeURIComponent(cursor)}`)).json, `${cursor}`).toEqual({
        code: 'invalid_cursor',
        message: 'cursor must be copied unchanged from the Link header of a list response.',
        status: 400,
      });
    }
  });

  test('returns 405 with Allow to other methods, and 204 to OPTIONS', async () => {
    const { call } = await startApp();
    for (const method of ['PUT', 'PATCH', 'DELETE', 'TRACE', 'PROPFIND']) {
      const answer = await call(method, '/v1/pets');
      expect(answer, method).toMatchObject({
        status: 405,
        json: { code: 'method_not_allowed' },
        headers: { allow: 'GET, HEAD, POST, OPTIONS' },
      });
    }
    expect(await call('OPTIONS', '/v1/pets')).toMatchObject({
      status: 204,
      text: '',
      headers: { allow: 'GET, HEAD, POST, OPTIONS' },
    });
  });
});
