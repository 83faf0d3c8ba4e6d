import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { readDecimal, readJson } from '../../../src/core/int64.ts';

const read = (text: string) => readJson(Buffer.from(text));

describe('readJson', () => {
  test.for<[text: string, value: bigint | number]>([
    ['0', 0n],
    ['-0', 0n],
    ['-0.000e-7', 0n],
    ['0e999999999', 0n],
    ['-1.0', -1n],
    ['12300e-2', 123n],
    ['-7', -7n],
    ['1.50e1', 15n],
    ['1e3', 1000n],
    ['1E+3', 1000n],
    ['0.0000000000000000000001e22', 1n],
    ['9007199254740991.000', 9007199254740991n],
    ['9007199254740993', 9007199254740993n],
    ['9223372036854775807', 9223372036854775807n],
    ['-9223372036854775808', -9223372036854775808n],
    ['9999999999999999999', 9999999999999999999n],
    ['1.5', 1.5],
    ['9007199254740991.4', 9007199254740991],
    ['1.00000000000000000001', 1],
    ['9007199254740993.0', 9007199254740992],
    ['1e18', 1e18],
    ['10000000000000000000', 1e19],
    ['-12345678901234567890', -12345678901234567000],
    ['1e999999999', Infinity],
    ['1e-400', 0],
    ['0.99999999999999999', 1],
  ])('reads %s as %s', ([text, value]) => {
    expect(read(text)).toBe(value);
    expect(read(`{"a":[${text}]}`)).toEqual({ a: [value] });
  });

  test('reads a number as an integer if its digits are one, and other numbers as JSON.parse does', () => {
    const number = fc.tuple(
      fc.oneof(fc.integer(), fc.bigInt({ min: -(10n ** 18n), max: 10n ** 18n })).map(String),
      fc.stringMatching(/^\d{1,2}0{0,20}$/),
      fc.integer({ min: -25, max: 25 }),
    );
    fc.assert(
      fc.property(number, ([integer, fraction, exponent]) => {
        const text = `${integer}.${fraction}e${exponent}`;
        const scaled = BigInt(integer + fraction) * 10n ** BigInt(50 + exponent - fraction.length);
        const isSafe = scaled % 10n ** 50n === 0n && Number.isSafeInteger(Number(scaled / 10n ** 50n));
        expect(read(text)).toBe(isSafe ? scaled / 10n ** 50n : JSON.parse(text));
        expect(read(integer)).toBe(BigInt(integer));
      }),
    );
  });

  test('leaves numbers as they are whose source JSON.parse does not give', () => {
    // Node 26.10 takes the name " for the name \ if it has seen that after the same names.
    read('{"one":1.5,"\\\\":2.5}');
    expect(Object.values(read('{"one":1.5,"\\"":2.0}') as object)).toEqual([1.5, 2]);
  });

  test('reads every digit beside 10,000 commas; beside more, which no operation allows, it makes no BigInt', () => {
    const beside = (commas: number) => read(`{"a":9007199254740993,"b":["${','.repeat(commas - 1)}"]}`);
    expect(beside(10_000)).toMatchObject({ a: 9007199254740993n });
    expect(beside(10_001)).toMatchObject({ a: 9007199254740992 });
  });

  test.for([
    '{"a":1.5,"a":9007199254740993}',
    '{"a":[1,2],"a":9007199254740993}',
    '{"a":"x","\\u0061":9007199254740993}',
    '{"__proto__":{"a":1},"a":9007199254740993}',
  ])('of two members of one name, the last counts: %s', (text) => {
    const value = read(text) as object;
    expect(value).toHaveProperty('a', 9007199254740993n);
    expect(Object.getPrototypeOf(value)).toBe(Object.prototype);
  });

  test('names a fault without the text around it', () => {
    for (const text of ['[secret]', `["${'x'.repeat(40)}", secret]`, `[secret, "${'x'.repeat(40)}"]`])
      expect(() => read(text)).toThrow(new SyntaxError("not valid JSON: Unexpected token 's'"));
    expect(() => read('\n\n[1}')).toThrow(/^not valid JSON: Expected .+ in JSON at position \d+/);
    expect(() => read('\ufeff{}')).toThrow(new SyntaxError('not valid JSON: it begins with a byte order mark'));
    expect(() => read('['.repeat(30_000) + ']'.repeat(30_000))).toThrow(new SyntaxError('nested too deeply'));
    expect(() => readJson(Buffer.from([0x22, 0xff, 0x22]))).toThrow(new SyntaxError('not valid UTF-8'));
  });
});

test('readDecimal reads every digit of a decimal of at most 20 characters and returns other text unchanged', () => {
  for (const text of ['0', '-7', '9223372036854775808', '-9223372036854775808', '12345678901234567890'])
    expect(readDecimal(text)).toBe(BigInt(text));
  for (const text of ['', '01', '+1', '1.0', '1e3', 'x', '123456789012345678901', '-12345678901234567890'])
    expect(readDecimal(text)).toBe(text);
});
