/** Property tests: rules that must hold for every input, tried on generated inputs. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { startApp } from '../../support/app.ts';
import { follow } from '../../support/links.ts';

const int64 = fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n });
const status = fc.constantFrom('available', 'pending', 'sold');
const anyName = fc.string({ unit: 'binary', minLength: 1, maxLength: 200 });
/** Random code units. They can contain lone surrogates, which are not Unicode text. */
const anyUnits = fc
  .array(fc.integer({ min: 0, max: 0xffff }), { minLength: 1, maxLength: 20 })
  .map((units) => String.fromCharCode(...units));

describe('for any input', () => {
  test('every digit of an int64 comes back, however it is written', async () => {
    const { call } = await startApp();
    const written = fc.tuple(int64, fc.nat(3)).map(([value, zeros]) => {
      return { value, text: zeros === 0 || value === 0n ? String(value) : `${value}${'0'.repeat(zeros)}e-${zeros}` };
    });
    await fc.assert(
      fc.asyncProperty(written, async ({ value, text }) => {
        const answer = await call('POST', '/v1/pets', { body: `{"name":"x","categoryId":${text}}` });
        expect(answer.status).toBe(201);
        expect(answer.text).toContain(`"categoryId":${value},`);
        expect((await call('GET', answer.headers.location as string)).text).toBe(answer.text);
      }),
      { numRuns: 150 },
    );
  });

  test('a name comes back byte for byte or is rejected', async () => {
    const { add, call } = await startApp();
    await fc.assert(
      fc.asyncProperty(fc.oneof(anyName, anyUnits), async (name) => {
        const answer = await add({ name, categoryId: 1 });
        if (name.includes('\0') || !name.isWellFormed()) {
          expect(answer.json.code).toBe('invalid_body');
        } else {
          expect(answer.status).toBe(201);
          expect(Buffer.from(answer.json.name)).toEqual(Buffer.from(name));
          expect((await call('GET', answer.headers.location as string)).json.name).toBe(name);
        }
      }),
      { numRuns: 300 },
    );
  });

  test('a walk through the pages returns each pet exactly once while others are added, and ends', async () => {
    const app = await startApp();
    let total = 0;
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 1, max: 7 }),
        fc.nat(6),
        fc.option(status, { nil: undefined }),
        async (limit, added, filter) => {
          const addOne = () =>
            app.add({ name: `pet ${++total}`, categoryId: 1, status: ['available', 'pending', 'sold'][total % 3] });
          for (let i = 0; i < 4; i++) await addOne();
          const before = total;
          let left = added;
          const pages = await follow(app, `/v1/pets?limit=${limit}${filter ? `&status=${filter}` : ''}`, async () => {
            if (left-- > 0) await addOne();
          });
          const seen: { id: number; status: string }[] = pages.flatMap(({ json }) => json);
          const ids = seen.map(({ id }) => id);
          expect(ids).toEqual([...new Set(ids)].sort((a, b) => a - b));
          const wanted = Array.from({ length: before }, (_, index) => index + 1).filter(
            (id) => filter === undefined || filter === ['available', 'pending', 'sold'][id % 3],
          );
          expect(ids.filter((id) => id <= before)).toEqual(wanted);
          expect(seen.every((pet) => filter === undefined || pet.status === filter)).toBe(true);
          for (const { json } of pages.slice(0, -1)) expect(json).toHaveLength(limit);
        },
      ),
      { numRuns: 25 },
    );
  });

  test('a retried creation adds one pet and always gets the same response', async () => {
    const { add, call } = await startApp();
    const key = fc.string({
      unit: fc.integer({ min: 33, max: 126 }).map((code) => String.fromCharCode(code)),
      minLength: 1,
      maxLength: 255,
    });
    const used = new Map<string, { name: string; text: string }>();
    await fc.assert(
      fc.asyncProperty(
        key,
        fc.constantFrom('Biscuit', 'Crumb'),
        fc.integer({ min: 1, max: 4 }),
        async (value, name, times) => {
          const known = used.get(value);
          const answers = await Promise.all(
            Array.from({ length: times }, () => add({ name, categoryId: 1 }, { 'idempotency-key': value })),
          );
          for (const { status: code, text, json } of answers) {
            if (known && known.name !== name) expect(json.code).toBe('idempotency_key_reused');
            else expect([code, text]).toEqual([201, (known ?? answers[0])?.text]);
          }
          if (!known) used.set(value, { name, text: answers[0]?.text as string });
        },
      ),
      {
        numRuns: 150,
        examples: [
          ['a', 'Biscuit', 3],
          ['a', 'Crumb', 2],
          ['a', 'Biscuit', 1],
        ],
      },
    );
    const stored = (await follow({ call } as never, '/v1/pets?limit=100')).flatMap(({ json }) => json);
    expect(stored).toHaveLength(used.size);
  });
});
