/** Tests of CSV: written records read back unchanged, and malformed records are rejected. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { openQuoteOf, readCsv, writeCsv } from '../../../src/core/csv.ts';

const text = fc.oneof(
  fc.string({ unit: 'binary' }),
  // Mostly characters that have a meaning in CSV.
  fc.string({ unit: fc.constantFrom('"', ',', '\r', '\n', '\r\n', ' ', 'a', '""') }),
);

test('any record reads back as it was written and ends with CRLF', () => {
  fc.assert(
    fc.property(fc.array(text, { minLength: 1, maxLength: 6 }), (fields) => {
      const record = writeCsv(fields);
      expect(record.endsWith('\r\n')).toBe(true);
      expect(readCsv(record.slice(0, -2))).toEqual(fields);
    }),
    { numRuns: 2000 },
  );
});

test('at each line break within a record, a quote is open, and at its end none', () => {
  fc.assert(
    fc.property(fc.array(text, { minLength: 1, maxLength: 6 }), (fields) => {
      const lines = writeCsv(fields).slice(0, -2).split('\n');
      let open = false;
      const seen = lines.map((line) => {
        open = openQuoteOf(Buffer.from(line), open) !== undefined;
        return open;
      });
      expect(seen).toEqual(lines.map((_, index) => index < lines.length - 1));
    }),
    { numRuns: 2000 },
  );
});

test.each([
  ['', false, undefined],
  ['', true, -1],
  ['a,b', false, undefined],
  ['a,b', true, -1],
  ['"', false, 0],
  ['"', true, undefined],
  ['a,"', false, 2],
  ['ä,"', false, 3],
  ['a","', true, 3],
  ['a"', false, undefined],
  ['a""', true, -1],
  ['a"""', true, undefined],
  ['"a""', false, 0],
  ['"a"b"', false, undefined],
  ['"a"b,"', false, 5],
  ['"a",,"b', false, 5],
  ['"a","b', true, 4],
  ['"a,b"', true, undefined],
] as const)('openQuoteOf(%j, %j) is %j', (line, open, expected) => {
  expect(openQuoteOf(Buffer.from(line), open)).toBe(expected);
});

test.each([
  ['', ['']],
  [',', ['', '']],
  ['a,"",b', ['a', '', 'b']],
  ['"a,b","c""d",e', ['a,b', 'c"d', 'e']],
  [' a , "', 'an unquoted field contains a quote or a line break'],
  ['a"b', 'an unquoted field contains a quote or a line break'],
  ['a\rb', 'an unquoted field contains a quote or a line break'],
  ['"a', 'a quote is not closed'],
  ['"a""', 'a quote is not closed'],
  ['"a"b,c', 'text follows a closing quote'],
])('readCsv reads or rejects %j', (record, expected) => {
  if (Array.isArray(expected)) expect(readCsv(record)).toEqual(expected);
  else expect(() => readCsv(record)).toThrow(new SyntaxError(expected));
});
