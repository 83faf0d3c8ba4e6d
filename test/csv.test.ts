/** CSV: what is written reads back the same, and nothing else is read. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { readCsv, writeCsv } from '../src/csv.ts';

const text = fc.oneof(
  fc.string({ unit: 'binary' }),
  // Mostly what CSV gives a meaning to.
  fc.string({ unit: fc.constantFrom('"', ',', '\r', '\n', '\r\n', ' ', 'a', '""') }),
);

test('for any texts: a record reads back as it was written, and ends with CRLF', () => {
  fc.assert(
    fc.property(fc.array(text, { minLength: 1, maxLength: 6 }), (fields) => {
      const record = writeCsv(fields);
      expect(record.endsWith('\r\n')).toBe(true);
      expect(readCsv(record.slice(0, -2))).toEqual(fields);
    }),
    { numRuns: 2000 },
  );
});

test('for any texts: the quotes of a whole record are even in number, and of one cut within a field odd', () => {
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
  [' a , "', 'a quote or line break stands in a field without quotes'],
  ['a"b', 'a quote or line break stands in a field without quotes'],
  ['a\rb', 'a quote or line break stands in a field without quotes'],
  ['"a', 'a quote is not closed'],
  ['"a""', 'a quote is not closed'],
  ['"a"b,c', 'text follows a closing quote'],
])('%j', (record, expected) => {
  if (Array.isArray(expected)) expect(readCsv(record)).toEqual(expected);
  else expect(() => readCsv(record)).toThrow(new SyntaxError(expected));
});
