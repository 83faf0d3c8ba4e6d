/** The animals in the lines of an import, each checked against the schema of POST /pets. */
import { isUtf8 } from 'node:buffer';
import { Type } from '@sinclair/typebox';
import { openQuoteOf, readCsv } from '../core/csv.ts';
import { messageOf } from '../core/errors.ts';
import { readDecimal, readJson } from '../core/int64.ts';
import { NewPet } from '../core/pets.ts';
import { checkOf, isObject, joinFaults, kind, quoted, type Values } from '../core/schema.ts';
import type { NewRow } from '../store/bulk.ts';
import { columns, type Format } from './arguments.ts';
import { CommandError } from './context.ts';
import { maxLineBytes, readLines } from './import-source.ts';

/** One animal, or why the line is bad. A CSV record may span several lines. */
export interface Row {
  /** Its first line, from 1. */
  line: number;
  last: number;
  /** Bytes of the file up to the end of this row. */
  end: number;
  pet: NewRow | undefined;
  /** Empty if there is an animal. */
  faults: string;
  /**
   * The line with a quote that is not closed correctly, so that it is unknown where the next record begins. Undefined if the fields can be
   * read, or if they are all on one line.
   */
  openQuote: number | undefined;
}

const lineFeed = 0x0a;

interface Source extends Omit<Row, 'pet' | 'faults' | 'openQuote'> {
  /** The bytes of one animal in the file; undefined if there are too many. */
  bytes: Buffer | undefined;
  /** The line with the quote that opens the last field that does not end on its line; undefined if there is none. */
  quote: number | undefined;
}

/** An animal that keeps its id, with --keep-ids. */
const KeptPet = Type.Object(
  {
    id: kind<bigint>(
      'PetId',
      (value) => typeof value === 'bigint' && value >= 1n && value <= BigInt(Number.MAX_SAFE_INTEGER),
      `be an integer from 1 to ${Number.MAX_SAFE_INTEGER}`,
      {},
    ),
    ...NewPet.properties,
  },
  { additionalProperties: false },
);

/** Throws CommandError if the first line of CSV does not name the columns. */
export function* readRows(file: number, format: Format, keepIds: boolean): Generator<Row> {
  const check = checkOf(keepIds ? KeptPet : NewPet, notGiven);
  const sources = format === 'csv' ? csvSources(file) : jsonSources(file);
  const read = format === 'csv' ? csvReader(sources) : readJson;
  for (const { bytes, quote, ...place } of sources) {
    const [values, fault] = bytes ? attempt(() => read(bytes)) : [undefined, `longer than ${maxLineBytes} bytes`];
    if (fault !== undefined) yield { ...place, pet: undefined, faults: fault, openQuote: quote };
    else yield { ...place, ...checkRow(values, check, keepIds, place), openQuote: undefined };
  }
}

/** Names the value in the operator's own file. readJson returns Infinity for every integer of more than 19 digits. */
function notGiven(value: unknown): string {
  if (typeof value === 'string') return `, but is ${quoted(value)}`;
  const isUnclear = typeof value === 'number' ? !Number.isFinite(value) : typeof value === 'object' && value !== null;
  return isUnclear ? '' : `, but is ${value}`;
}

/** The result, or the message of the error. */
function attempt(read: () => unknown): [unknown, string | undefined] {
  try {
    return [read(), undefined];
  } catch (error) {
    return [undefined, messageOf(error)];
  }
}

function checkRow(
  values: unknown,
  check: (values: Values) => string[],
  keepIds: boolean,
  { line, last }: Pick<Row, 'line' | 'last'>,
): Pick<Row, 'pet' | 'faults'> {
  if (!isObject(values)) return { pet: undefined, faults: 'must be a JSON object' };
  // An export has the ids of another store: ignored without --keep-ids.
  if (!keepIds) delete values.id;
  const faults = joinFaults(check(values));
  return { pet: faults === '' ? ({ ...values, line, last } as NewRow) : undefined, faults };
}

function* jsonSources(file: number): Generator<Source> {
  for (const { number, bytes, end } of readLines(file)) {
    const text = number === 1 ? withoutMark(bytes) : bytes;
    if (!isBlank(text)) yield { line: number, last: number, end, bytes: text, quote: undefined };
  }
}

/** A record continues on the next line while a quoted field is open. Its bytes are valid until the next record is read. */
function* csvSources(file: number): Generator<Source> {
  const buffer = Buffer.allocUnsafe(maxLineBytes);
  let length = 0;
  let record: Source | undefined;
  for (const { number, bytes, end } of readLines(file)) {
    const text = number === 1 ? withoutMark(bytes) : bytes;
    if (!record && isBlank(text)) continue;
    const quote = text && openQuoteOf(text, record !== undefined);
    if (record) buffer[length++] = lineFeed;
    else length = 0;
    const fits = text !== undefined && length + text.length <= maxLineBytes;
    if (fits) length += text.copy(buffer, length);
    record = {
      line: record?.line ?? number,
      last: number,
      end,
      bytes: fits ? buffer.subarray(0, length) : undefined,
      quote: quote === undefined || quote === -1 ? record?.quote : number,
    };
    if (quote !== undefined && fits) continue;
    yield { ...record, bytes: withoutReturn(record.bytes) };
    record = undefined;
  }
  if (record) yield record;
}

/** Some programs begin UTF-8 text with a byte order mark. */
function withoutMark(text: Buffer | undefined): Buffer | undefined {
  return text?.indexOf('\ufeff') === 0 ? text.subarray(3) : text;
}

function withoutReturn(text: Buffer | undefined): Buffer | undefined {
  return text?.at(-1) === 13 ? text.subarray(0, -1) : text;
}

function isBlank(text: Buffer | undefined): boolean {
  return withoutReturn(text)?.length === 0;
}

/** Reads the header, the first record, which names the columns in any order, and returns a function that reads the others. */
function csvReader(sources: Generator<Source>): (bytes: Buffer) => Values {
  const header = readHeader(sources.next().value);
  return (bytes) => {
    const fields = fieldsOf(bytes);
    if (fields.length !== header.length)
      throw new SyntaxError(`has ${fields.length} fields where the header has ${header.length}`);
    const values: Values = {};
    for (const [index, column] of header.entries()) {
      const text = fields[index] ?? '';
      // CSV cannot omit a field otherwise.
      if (column === 'status' && text === '') continue;
      values[column] = column === 'id' || column === 'categoryId' ? readDecimal(text) : text;
    }
    return values;
  };
}

function readHeader(source: Source | undefined): string[] {
  const text = source?.bytes?.toString() ?? '';
  const separator = text.includes(',') ? undefined : /[;\t]/.exec(text)?.[0];
  if (separator) {
    const found = separator === ';' ? 'semicolons' : 'tabs';
    throw new CommandError(
      `line ${source?.line}, which names the columns: separate the fields by commas, not ${found}.`,
    );
  }
  let header: string[] = [];
  const faults: string[] = [];
  try {
    header = source?.bytes ? fieldsOf(source.bytes) : [];
  } catch (error) {
    faults.push(messageOf(error));
  }
  for (const name of new Set(header)) {
    if (!columns.includes(name)) faults.push(`${quoted(name)} is not a known field`);
    else if (header.indexOf(name) !== header.lastIndexOf(name)) faults.push(`${name} is given more than once`);
  }
  for (const name of ['name', 'categoryId']) if (!header.includes(name)) faults.push(`${name} is required`);
  if (faults.length > 0)
    throw new CommandError(`line ${source?.line ?? 1}, which names the columns: ${joinFaults(faults)}.`);
  return header;
}

function fieldsOf(bytes: Buffer): string[] {
  if (!isUtf8(bytes)) throw new SyntaxError('not valid UTF-8');
  try {
    return readCsv(bytes.toString());
  } catch (error) {
    throw new SyntaxError(`not valid CSV: ${messageOf(error)}`);
  }
}
