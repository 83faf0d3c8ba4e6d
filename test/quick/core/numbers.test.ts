/** Tests of reading JSON and 64-bit integers without loss. */
import { Kind } from '@sinclair/typebox';
import { Value } from '@sinclair/typebox/value';
import { describe, expect, test } from 'vitest';
import { canonicalDecimal, Int64, readDecimal, readJson } from '../../../src/core/int64.ts';
import { requirementOf } from '../../../src/core/schema.ts';

const read = (text: string) => readJson(Buffer.from(text));

describe('readJson', () => {
  test.for<[text: string, value: bigint | number]>([
    ['0', 0n],
    ['-0', 0n],
    ['0.0', 0n],
    ['0e5', 0n],
    ['-0.000e-7', 0n],
    ['0e999999999', 0n],
    ['7', 7n],
    ['-7', -7n],
    ['10', 10n],
    ['100', 100n],
    ['1.0', 1n],
    ['1.50e1', 15n],
    ['1e3', 1000n],
    ['1E+3', 1000n],
    ['12300e-2', 123n],
    ['0.001e3', 1n],
    ['0.0010e4', 10n],
    ['0.0000000000000000000001e22', 1n],
    ['1050', 1050n],
    ['9007199254740993', 9007199254740993n],
    ['9223372036854775807', 9223372036854775807n],
    ['-9223372036854775808', -9223372036854775808n],
    ['9223372036854775808', 9223372036854775808n],
    ['9999999999999999999', 9999999999999999999n],
    ['1e18', 1000000000000000000n],
    ['10e17', 1000000000000000000n],
    ['1.5', 1.5],
    ['-1.5', -1.5],
    ['1e-1', 0.1],
    ['10e-2', 0.1],
    ['12.345e2', 1234.5],
    ['10000000000000000000', Infinity],
    ['-10000000000000000000', -Infinity],
    ['1e19', Infinity],
    ['1e999999999', Infinity],
    ['-1e999999999', -Infinity],
    ['-12345678901234567890', -Infinity],
    ['1e-999999999', 0],
    ['1e-400', 0],
    ['0.9999999999999', 0.9999999999999],
    ['0.99999999999999999', 1],
    ['100000000000000', 100000000000000n],
    ['1e14', 100000000000000n],
    ['1e15', 1000000000000000n],
    ['-0e0', 0n],
  ])('reads %s as %s', ([text, value]) => {
    expect(read(text)).toBe(value);
    expect(read(`{"a":[${text}]}`)).toEqual({ a: [value] });
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

  test('reads everything but numbers as JSON.parse does', () => {
    const text = '{"a":"1","b":[true,false,null,"\\u0031\\n"],"c":{},"":[]}';
    expect(read(text)).toEqual(JSON.parse(text));
  });

  test.for([
    '{"a":1,"a":1}',
    '{"a":1,"\\u0061":1}',
    '{"a" :1,"a"\t:1}',
    '{"b":{"a":1,"a":2}}',
    '[{"a":{}},{"a":1,"b":{"c":2},"a":3}]',
    '{"a":{"b":1},"a":2}',
    '{"a":"x}","a":1}',
    '{"b":"{x","a":"\\"}","a":1}',
  ])('rejects a duplicate member: %s', (text) => {
    expect(() => read(text)).toThrow(new SyntaxError('not valid JSON: the member "a" is given more than once'));
  });

  test.for(['{"a":{"a":1},"b":[{"a":1},{"a":2}]}', '{"a":"a","b":"{\\"a\\":1,\\"a\\":2}"}', '{"a":"b","b":"b"}'])(
    'accepts the same name in different objects and within strings: %s',
    (text) => {
      expect(JSON.stringify(read(text), (_key, value) => (typeof value === 'bigint' ? Number(value) : value))).toBe(
        text,
      );
    },
  );

  test.for(['', '{', '01', '1.', '.5', '+1', '{"a":1,}', "{'a':1}", 'NaN'])(
    'rejects text that is not JSON: %j',
    (text) => {
      expect(() => read(text)).toThrow(SyntaxError);
      expect(() => read(text)).toThrow(/^not valid JSON: ./);
    },
  );

  test('does not quote the text around an error', () => {
    for (const text of ['[secret]', `["${'x'.repeat(40)}", secret]`, `[secret, "${'x'.repeat(40)}"]`])
      expect(() => read(text)).toThrow(new SyntaxError("not valid JSON: Unexpected token 's'"));
    expect(() => read('\n\n[1}')).toThrow(/^not valid JSON: Expected .+ in JSON at position \d+/);
  });

  test('rejects bytes that are not UTF-8, and text nested too deeply, with messages of their own', () => {
    expect(() => readJson(Buffer.from([0x22, 0xff, 0x22]))).toThrow(new SyntaxError('not valid UTF-8'));
    const deep = `${'['.repeat(200_000)}${']'.repeat(200_000)}`;
    expect(() => read(deep)).toThrow(new SyntaxError('nested too deeply'));
  });
});

describe('Int64', () => {
  const schema = Int64({ description: 'A number.', examples: [7] });

  test('is documented as a 64-bit integer', () => {
    expect({ ...schema }).toMatchObject({
      type: 'integer',
      format: 'int64',
      description: 'A number.',
      examples: [7],
    });
  });

  test('has a kind and states its requirement', () => {
    expect(schema[Kind]).toBe('Int64');
    expect(requirementOf(schema)).toBe('be an integer from -9223372036854775808 to 9223372036854775807');
  });

  test('accepts the whole signed 64-bit range and nothing else', () => {
    for (const value of [-(2n ** 63n), -1n, 0n, 2n ** 63n - 1n]) expect(Value.Check(schema, value)).toBe(true);
    for (const value of [-(2n ** 63n) - 1n, 2n ** 63n, 1, '1', true, null, undefined, Infinity])
      expect(Value.Check(schema, value)).toBe(false);
  });
});

test('readDecimal reads every digit of a decimal of at most 20 characters and returns other text unchanged', () => {
  for (const text of ['0', '-7', '9223372036854775808', '-9223372036854775808', '12345678901234567890'])
    expect(readDecimal(text)).toBe(BigInt(text));
  for (const text of ['', '01', '+1', '1.0', '1e3', 'x', '123456789012345678901', '-12345678901234567890'])
    expect(readDecimal(text)).toBe(text);
});

test('canonicalDecimal matches no leading zeros, plus sign, point or exponent', () => {
  for (const text of ['0', '-0', '1', '-1', '10', '9223372036854775807']) expect(text).toMatch(canonicalDecimal);
  for (const text of ['', '-', '01', '-01', '+1', '1.0', '1e3', ' 1', '1 ', '1x', 'x1', '--1', '0x1'])
    expect(text).not.toMatch(canonicalDecimal);
});
