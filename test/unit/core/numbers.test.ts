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
    ['-0.0e5', 0n],
    ['-1.0', -1n],
    ['12300e-2', 123n],
    ['9223372036854775807.000', 9223372036854775807n],
    ['7', 7n],
    ['-7', -7n],
    ['1.50e1', 15n],
    ['1e3', 1000n],
    ['1E+3', 1000n],
    ['0.001e3', 1n],
    ['0.0000000000000000000001e22', 1n],
    ['9007199254740993', 9007199254740993n],
    ['9223372036854775807', 9223372036854775807n],
    ['-9223372036854775808', -9223372036854775808n],
    ['9999999999999999999', 9999999999999999999n],
    ['1e18', 1000000000000000000n],
    ['1.5', 1.5],
    ['1e-1', 0.1],
    ['12.345e2', 1234.5],
    ['10000000000000000000', Infinity],
    ['1e19', Infinity],
    ['1e999999999', Infinity],
    ['-12345678901234567890', -Infinity],
    ['1e-999999999', 0],
    ['1e-400', 0],
    ['0.99999999999999999', 1],
    ['1e15', 1000000000000000n],
  ])('reads %s as %s', ([text, value]) => {
    expect(read(text)).toBe(value);
    expect(read(`{"a":[${text}]}`)).toEqual({ a: [value] });
  });

  test('reads integers alike, whether or not another number makes it look at the text of each', () => {
    const integer = fc.oneof(fc.integer(), fc.bigInt({ min: -(10n ** 21n), max: 10n ** 21n })).map(String);
    const values = fc.array(
      fc.oneof(
        integer,
        integer.map(JSON.stringify),
        fc.array(integer).map((all) => `[${all}]`),
      ),
    );
    const object = values.map((all) => `{${all.map((text, place) => `"${place}":${text}`)}}`);
    fc.assert(
      fc.property(object, (text) => {
        expect(read(`[${text}]`)).toEqual([(read(`[${text},1.5]`) as unknown[])[0]]);
      }),
    );
  });

  test('reads every digit of a number beside other long digits', () => {
    const beside = (other: string) => read(`{"a":${other},"b":9007199254740993}`);
    for (const other of ['"12345678901234567"', '9007199254740995'])
      expect(beside(other)).toMatchObject({ b: 9007199254740993n });
  });

  test('leaves numbers as they are whose source JSON.parse does not give', () => {
    // Node 26.10 takes the name " for the name \ if it has seen that after the same names.
    read('{"one":1.5,"\\\\":2.5}');
    expect(Object.values(read('{"one":1.5,"\\"":2.0}') as object)).toEqual([1.5, 2]);
  });

  test('reads every digit beside 1,000 commas; beside more, which no operation allows, the nearest BigInt', () => {
    const beside = (commas: number) => read(`{"a":9007199254740993,"b":[1.0${',"x,y"'.repeat(commas - 1)}]}`);
    expect(beside(1000)).toMatchObject({ a: 9007199254740993n });
    expect(beside(1001)).toMatchObject({ a: 9007199254740992n });
    expect(read(`{"a":"${','.repeat(2000)}","b":9007199254740993}`)).toMatchObject({ b: 9007199254740993n });
  });

  test.for([
    '{"a":1,"a":1}',
    '{"a":1,"\\u0061":1}',
    '{"a" :1,"a"\t:1}',
    '{"a"\n:1,"a"\r\n:1}',
    '[{"a":{}},{"a":1,"b":{"c":2},"a":3}]',
    '{"a":"x}","a":1}',
    '{"b":"{x","a":"\\"}","a":1}',
  ])('rejects a duplicate member: %s', (text) => {
    expect(() => read(text)).toThrow(new SyntaxError('not valid JSON: the member "a" is given more than once'));
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
