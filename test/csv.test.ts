/** Tests of CSV: written records read back unchanged, and malformed records are rejected. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { readCsv, writeCsv } from '../src/csv.ts';

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

test('a complete record has an even number of quotes, and one cut within a field an odd number', () => {
  const quotes = (record: string) => record.split('"').length - 1;
  fc.assert(
    fc.property(fc.array(text, { minLength: 1, maxLength: 6 }), (fields) => {
      const record = writeCsv(fields);
      expect(quotes(record) % 2).toBe(0);
      const lines = record.slice(0, -2).split('\n');
      for (let end = 1; end < lines.length; end++) expect(quotes(lines.slice(0, end).join('\n')) % 2).toBe(1);
    }),
    { numRuns: 2000 },
  );
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
