/** Reads and writes CSV strictly by RFC 4180, except that a record may also end with a line feed alone. */

/** Parses one record without its line break. Throws SyntaxError, whose message names the fault. */
export function readCsv(record: string): string[] {
  const fields: string[] = [];
  for (let start = 0; ; ) {
    const { text, end } = record[start] === '"' ? quoted(record, start) : plain(record, start);
    fields.push(text);
    if (end >= record.length) return fields;
    if (record[end] !== ',') throw new SyntaxError('text follows a closing quote');
    start = end + 1;
  }
}

function plain(record: string, start: number): { text: string; end: number } {
  const comma = record.indexOf(',', start);
  const end = comma === -1 ? record.length : comma;
  const text = record.slice(start, end);
  if (/["\r\n]/.test(text)) throw new SyntaxError('an unquoted field contains a quote or a line break');
  return { text, end };
}

function quoted(record: string, start: number): { text: string; end: number } {
  let end = start;
  do {
    end = record.indexOf('"', end + 1);
    if (end === -1) throw new SyntaxError('a quote is not closed');
    // A doubled quote stands for one quote (RFC 4180, section 2, rule 7).
  } while (record[end + 1] === '"' && ++end);
  return { text: record.slice(start + 1, end).replaceAll('""', '"'), end: end + 1 };
}

const quoteByte = 0x22;
const commaByte = 0x2c;

/**
 * The position of the quote whose field is still open at the end of a line, -1 if an earlier line opened it (`open`), or undefined if no field
 * is open. As in the grammar of RFC 4180, a quote opens a field only at its beginning: elsewhere it makes the record invalid, but no longer.
 */
export function openQuoteOf(line: Uint8Array, open: boolean): number | undefined {
  let quote = open ? -1 : undefined;
  for (let at = 0; ; at += 1) {
    if (quote === undefined && line[at] === quoteByte) quote = at++;
    while (quote !== undefined) {
      at = line.indexOf(quoteByte, at);
      if (at === -1) return quote;
      // A doubled quote stands for one quote.
      if (line[at + 1] === quoteByte) at += 2;
      else quote = undefined;
    }
    at = line.indexOf(commaByte, at);
    if (at === -1) return undefined;
  }
}

/** Formats one record with its line break. */
export function writeCsv(fields: readonly (string | bigint)[]): string {
  return `${fields.map((field) => quote(String(field))).join()}\r\n`;
}

function quote(field: string): string {
  return /[",\r\n]/.test(field) ? `"${field.replaceAll('"', '""')}"` : field;
}
