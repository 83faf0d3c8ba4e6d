/** Tests that pages skip nothing and repeat nothing, whatever is added meanwhile. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { statuses } from '../../src/core/pets.ts';
import { startApp } from '../support/app.ts';
import { follow, links } from '../support/links.ts';

test('a walk through the pages returns each pet exactly once while others are added, in full pages, and ends', async () => {
  const app = await startApp();
  let total = 0;
  const addOne = () => app.add({ name: 'x', categoryId: 1, status: statuses[++total % 3] });
  const check = async (limit: number, added: number, filter?: (typeof statuses)[number]) => {
    for (let count = 0; count < 4; count++) await addOne();
    const before = total;
    let left = added;
    const path = `/v1/pets?limit=${limit}${filter ? `&status=${filter}` : ''}`;
    const pages = await follow(app, path, async () => {
      if (left-- > 0) await addOne();
      // Fails if the walk does not end.
      expect(-left).toBeLessThan(1000);
    });
    for (const { headers } of pages) expect(links(headers.link).first).toBe(path);
    expect(pages.at(-1)?.json).not.toEqual([]);
    expect(pages.slice(0, -1).filter(({ json }) => json.length !== limit)).toEqual([]);
    const ids: number[] = pages.flatMap(({ json }) => json.map(({ id }: { id: number }) => id));
    expect(ids).toEqual([...new Set(ids)].sort((a, b) => a - b));
    const isWanted = (id: number) => filter === undefined || filter === statuses[id % 3];
    expect(ids.every(isWanted)).toBe(true);
    const wanted = Array.from(Array(before), (_, index) => index + 1).filter(isWanted);
    expect(ids.filter((id) => id <= before)).toEqual(wanted);
  };
  const filters = fc.option(fc.constantFrom(...statuses), { nil: undefined });
  await fc.assert(fc.asyncProperty(fc.integer({ min: 1, max: 7 }), fc.nat(6), filters, check), { numRuns: 25 });
});

test('a full last page is no longer current when it gets a next one', async () => {
  const app = await startApp();
  await app.add({ name: 'x', categoryId: 1 });
  const etag = String((await app.get('/v1/pets?limit=1')).headers.etag);
  const again = () => app.get('/v1/pets?limit=1', { headers: { 'if-none-match': etag } });
  expect((await again()).status).toBe(304);
  await app.add({ name: 'y', categoryId: 1 });
  expect(await again()).toMatchObject({ status: 200, headers: { link: expect.stringContaining('"next"') } });
});
