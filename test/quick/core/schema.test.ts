/** Tests of the schemas of pets and messages, and of validation against a schema. */
import { readFileSync } from 'node:fs';
import { Type } from '@sinclair/typebox';
import { Value } from '@sinclair/typebox/value';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { retryWindowMs } from '../../../src/core/idempotency.ts';
import { Int64 } from '../../../src/core/int64.ts';
import { Message, NewMessage } from '../../../src/core/messages.ts';
import { NewPet, Pet, PetStatus, Pets, statuses } from '../../../src/core/pets.ts';
import { checkOf, isObject, joinFaults, kind, quoted, requirementOf, toNfc } from '../../../src/core/schema.ts';
import { IdempotencyHeaders } from '../../../src/pets/idempotency.ts';

const read = (name: string) => parse(readFileSync(new URL(`../../../${name}`, import.meta.url), 'utf8'));
const schemasOf = (name: string) => read(name).components.schemas;

/** The schema as JSON. It is as in the documents, with references replaced by their targets. */
const plain = (schema: object) => JSON.parse(JSON.stringify(schema));

test('pets are described as in openapi.yaml', () => {
  const { PetStatus: status, ...documented } = schemasOf('openapi.yaml');
  const titled = (title: string, more = {}) => ({ title, ...documented[title], ...more });
  const properties = (title: string, more: object) => ({ ...documented[title].properties, status: more });
  const shared = { title: 'PetStatus', ...status };
  const pet = titled('Pet', { properties: properties('Pet', shared) });
  expect(plain(PetStatus)).toEqual(shared);
  expect(plain(Pet)).toEqual(pet);
  expect(plain(Pets)).toEqual(titled('Pets', { items: pet }));
  expect(plain(NewPet)).toEqual(
    titled('NewPet', { properties: properties('NewPet', { ...shared, default: 'available' }) }),
  );
});

test('messages are described as in openapi.quickstart.yaml', () => {
  const { NewMessage: newMessage, Message: message } = schemasOf('openapi.quickstart.yaml');
  expect(plain(NewMessage)).toEqual({ title: 'NewMessage', ...newMessage });
  expect(plain(Message)).toEqual({ title: 'Message', ...message });
});

test('an Idempotency-Key is described as in openapi.yaml and states its requirement', () => {
  const [documented] = read('openapi.yaml').paths['/pets'].post.parameters;
  const { schema, name, description, examples } = documented;
  const key = IdempotencyHeaders.properties['Idempotency-Key'];
  expect(name).toBe('Idempotency-Key');
  expect(plain(key)).toEqual({ ...schema, description, examples: [examples.full.value] });
  expect(requirementOf(key)).toBe('be 1 to 255 visible ASCII characters, given once');
  for (const headers of [{}, { [name]: '!' }, { [name]: '~'.repeat(255) }])
    expect(Value.Check(IdempotencyHeaders, headers)).toBe(true);
  for (const value of ['', 'a b', 'é', '~'.repeat(256)])
    expect(Value.Check(IdempotencyHeaders, { [name]: value })).toBe(false);
});

test('a new pet has a storable name, a category and, if any, a known status', () => {
  const pet = { name: 'Biscuit', categoryId: 7n };
  for (const status of statuses) expect(Value.Check(NewPet, { ...pet, status })).toBe(true);
  expect(Value.Check(NewPet, pet)).toBe(true);
  for (const name of ['x', '\u{1f436}'])
    expect([1000, 1001].map((length) => Value.Check(NewPet, { ...pet, name: name.repeat(length) }))).toEqual([
      true,
      false,
    ]);
  for (const name of ['', 'a\0', '\ud800', 7, null]) expect(Value.Check(NewPet, { ...pet, name })).toBe(false);
  for (const status of ['', 'lost', 'Sold', null]) expect(Value.Check(NewPet, { ...pet, status })).toBe(false);
  for (const other of [{ name: 'a' }, { categoryId: 7n }, { ...pet, id: 1n }])
    expect(Value.Check(NewPet, other)).toBe(false);
});

test('a status, a name and a message state their requirements', () => {
  expect(requirementOf(PetStatus)).toBe('be one of available, pending, sold');
  expect(requirementOf(NewPet.properties.name)).toBe(
    'be a string of 1 to 1,000 characters, without NUL and without lone surrogates',
  );
  expect(requirementOf(NewMessage.properties.message)).toBe('be a string without NUL and without lone surrogates');
});

test('a message is any storable text, even an empty one', () => {
  for (const message of ['', 'Hello', '\u{1f436}']) expect(Value.Check(NewMessage, { message })).toBe(true);
  for (const message of ['a\0', '\ud800', 7, null, undefined]) expect(Value.Check(NewMessage, { message })).toBe(false);
  expect(Value.Check(NewMessage, { message: '', more: 1 })).toBe(false);
});

test('a creation can be retried for 24 hours', () => {
  expect(retryWindowMs).toBe(86_400_000);
});

describe('validation of an object', () => {
  const Word = kind<string>('TestWord', (value) => typeof value === 'string', 'be a word', { type: 'string' });
  const check = checkOf(
    Type.Object(
      {
        id: Int64({ description: 'A number.', examples: [1] }),
        name: Type.Optional({ ...Word, default: 'none' }),
        note: Type.Optional(Word),
      },
      { additionalProperties: false },
    ),
  );

  test('sets the defaults of missing members and keeps given values', () => {
    const given = { id: 1n };
    expect(check(given)).toEqual([]);
    expect(given).toStrictEqual({ id: 1n, name: 'none' });
    const full = { id: 1n, name: '', note: 'b' };
    expect(check(full)).toEqual([]);
    expect(full).toEqual({ id: 1n, name: '', note: 'b' });
  });

  test('reports every fault, known fields first, and leaves the object unchanged', () => {
    const given = { more: 1, name: 7, toString: 2 };
    expect(check(given)).toEqual([
      'id is required',
      'name must be a word',
      '"more" is not a known field',
      '"toString" is not a known field',
    ]);
    expect(given).toEqual({ more: 1, name: 7, toString: 2 });
    expect(check({ id: 1n, note: 7 })).toEqual(['note must be a word']);
    const free = checkOf(Type.Object({ note: Type.Optional(Word) }, { additionalProperties: false }));
    expect(free({ more: 1 })).toEqual(['"more" is not a known field']);
    expect(check({ id: 1, note: undefined })).toEqual([
      'id must be an integer from -9223372036854775808 to 9223372036854775807',
      'note must be a word',
    ]);
  });

  test('counts thousands of unknown fields, and names twenty', () => {
    const faults = check({
      id: 1n,
      name: '',
      ...Object.fromEntries(Array.from({ length: 3000 }, (_, at) => [`x${at}`, 1])),
    });
    expect(faults).toHaveLength(3000);
    expect(joinFaults(faults)).toMatch(/^"x0" is not a known field; .+; "x19" is not a known field; and 2980 more$/);
  });

  test('accepts neither an array nor null as an object', () => {
    expect(isObject({})).toBe(true);
    for (const value of [[], null, undefined, 'a', 1, true]) expect(isObject(value)).toBe(false);
  });
});

test('joinFaults names twenty faults and counts the rest', () => {
  const faults = Array.from({ length: 22 }, (_, at) => `fault ${at + 1}`);
  expect(joinFaults([])).toBe('');
  expect(joinFaults(['a', 'b'])).toBe('a; b');
  expect(joinFaults(faults.slice(0, 20))).toBe(faults.slice(0, 20).join('; '));
  expect(joinFaults(faults)).toBe(`${faults.slice(0, 20).join('; ')}; and 2 more`);
});

describe('toNfc', () => {
  test('joins text that can have few enough characters, and leaves longer text as it is', () => {
    const letters = (units: number) => 'e\u0301'.repeat(units / 2);
    expect(toNfc(letters(600), 100)).toBe('é'.repeat(300));
    expect(toNfc(letters(602), 100)).toBe(letters(602));
  });

  test('leaves no text unchanged whose NFC has few enough characters: no character is joined from more than 6 units', () => {
    let most = 0;
    for (let code = 0; code <= 0x10ffff; code++) {
      const apart = String.fromCodePoint(code).normalize('NFD');
      most = Math.max(most, apart.length / [...apart.normalize('NFC')].length);
    }
    expect(most).toBe(6);
  });
});

test('quoted masks an API key', () => {
  expect(quoted('ast_live_0123Az')).toBe('"ast_live_…"');
  expect(quoted(`ast_test_a ast_live_${'b'.repeat(80)}!`)).toBe('"ast_test_… ast_live_…!"');
  expect(quoted('ast_test_')).toBe('"ast_test_"');
});
