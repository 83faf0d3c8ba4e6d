/** Property tests: rules that must hold for every input, tried on generated inputs. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { startApp } from '../../support/app.ts';
import { follow } from '../../support/links.ts';
import { patientMs } from '../../support/tier.ts';

const statuses = ['available', 'pending', 'sold'] as const;

describe('for any input', () => {
  test('every digit of an int64 comes back, however it is written', async () => {
    const { call } = await startApp();
    const int64 = fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n });
    const check = async (value: bigint, zeros: number) => {
      const text = zeros === 0 || value === 0n ? `${value}` : `${value}${'0'.repeat(zeros)}e-${zeros}`;
      const answer = await call('POST', '/v1/pets', { body: `{"name":"x","categoryId":${text}}` });
      expect(answer.status).toBe(201);
      expect(answer.text).toContain(`"categoryId":${value},`);
      expect((await call('GET', answer.headers.location as string)).text).toBe(answer.text);
    };
    await fc.assert(fc.asyncProperty(int64, fc.nat(3), check), { numRuns: 150 });
  });

  test('a name comes back byte for byte or is rejected', { timeout: patientMs }, async () => {
    const { add, call } = await startApp();
    /** Random code units. They can contain lone surrogates, which are not Unicode text. */
    const anyUnits = fc
      .array(fc.integer({ min: 0, max: 0xffff }), { minLength: 1, maxLength: 20 })
      .map((units) => String.fromCharCode(...units));
    const anyName = fc.string({ unit: 'binary', minLength: 1, maxLength: 200 });
    const check = async (name: string) => {
      const answer = await add({ name, categoryId: 1 });
      if (name.includes('\0') || !name.isWellFormed()) expect(answer.json.code).toBe('invalid_body');
      else {
        expect(answer.json.name).toBe(name);
        expect((await call('GET', answer.headers.location as string)).json.name).toBe(name);
      }
    };
    await fc.assert(fc.asyncProperty(fc.oneof(anyName, anyUnits), check), { numRuns: 200 });
  });

  test('a walk through the pages returns each pet exactly once while others are added, and ends', async () => {
    const app = await startApp();
    let total = 0;
    const addOne = () => app.add({ name: 'x', categoryId: 1, status: statuses[++total % 3] });
    const check = async (limit: number, added: number, filter?: (typeof statuses)[number]) => {
      for (let count = 0; count < 4; count++) await addOne();
      const before = total;
      let left = added;
      const pages = await follow(app, `/v1/pets?limit=${limit}${filter ? `&status=${filter}` : ''}`, async () => {
        if (left-- > 0) await addOne();
      });
      const ids: number[] = pages.flatMap(({ json }) => json.map(({ id }: { id: number }) => id));
      expect(ids).toEqual([...new Set(ids)].sort((a, b) => a - b));
      const isWanted = (id: number) => filter === undefined || filter === statuses[id % 3];
      expect(ids.every(isWanted)).toBe(true);
      const wanted = Array.from({ length: before }, (_, index) => index + 1).filter(isWanted);
      expect(ids.filter((id) => id <= before)).toEqual(wanted);
      for (const { json } of pages.slice(0, -1)) expect(json).toHaveLength(limit);
    };
    const filters = fc.option(fc.constantFrom(...statuses), { nil: undefined });
    await fc.assert(fc.asyncProperty(fc.integer({ min: 1, max: 7 }), fc.nat(6), filters, check), { numRuns: 25 });
  });
});
