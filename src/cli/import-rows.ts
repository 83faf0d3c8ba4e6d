/** What the lines of an import say, each checked by the very schema that POST /pets is checked by. */
import { isUtf8 } from 'node:buffer';
import { Type } from '@sinclair/typebox';
import { readCsv } from '../csv.ts';
import { readDecimal, readJson } from '../int64.ts';
import { NewPet } from '../pets.ts';
import type { NewRow } from '../repository/sqlite/import.ts';
import { checkOf, isObject, joinFaults, kind, quoted, type Values } from '../schema.ts';
import { columns, type Format } from './arguments.ts';
import { maxLineBytes, readLines } from './lines.ts';
import { CommandError } from './store.ts';

/** One animal, or why there is none. A record of CSV may go over several lines. */
export interface Row {
  /** The first line of it, from 1. */
  line: number;
  last: number;
  /** Bytes of the file up to and with it. */
  end: number;
  pet: NewRow | undefined;
  /** Empty where there is an animal. */
  faults: string;
}

/** A text of the file that stands for one animal; undefined where it is too long. */
type Source = Omit<Row, 'pet' | 'faults'> & { bytes: Buffer | undefined };

/** An animal that comes with its id, from another store. */
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

/** Throws CommandError where the first line of CSV names no columns that can be read. */
export function* readRows(file: number, format: Format, keepIds: boolean): Generator<Row> {
  const check = checkOf(keepIds ? KeptPet : NewPet);
  const sources = format === 'csv' ? csvSources(file) : jsonSources(file);
  const read = format === 'csv' ? csvReader(sources) : readJson;
  for (const { bytes, ...place } of sources) {
    if (bytes === undefined) yield { ...place, pet: undefined, faults: `longer than ${maxLineBytes} bytes` };
    else yield { ...place, ...checkRow(bytes, read, check, keepIds, place.line) };
  }
}

function checkRow(
  bytes: Buffer,
  read: (bytes: Buffer) => unknown,
  check: (values: Values) => string[],
  keepIds: boolean,
  line: number,
): Pick<Row, 'pet' | 'faults'> {
  let values: unknown;
  try {
    values = read(bytes);
  } catch (error) {
    return { pet: undefined, faults: (error as Error).message };
  }
  if (!isObject(values)) return { pet: undefined, faults: 'must be a JSON object' };
  // Ids of an export are those of another store, unless they are to be kept.
  if (!keepIds) delete values.id;
  const faults = joinFaults(check(values));
  return { pet: faults === '' ? ({ ...values, line } as NewRow) : undefined, faults };
}

function* jsonSources(file: number): Generator<Source> {
  for (const { number, bytes, end } of readLines(file)) {
    const text = number === 1 ? withoutMark(bytes) : bytes;
    if (!isBlank(text)) yield { line: number, last: number, end, bytes: text };
  }
}

/** A record goes on for as long as a quote is open, that is while the number of quotes is odd. */
function* csvSources(file: number): Generator<Source> {
  let record: Source | undefined;
  let open = false;
  for (const { number, bytes, end } of readLines(file)) {
    const text = number === 1 ? withoutMark(bytes) : bytes;
    if (!record && isBlank(text)) continue;
    open = open !== hasOddQuotes(text);
    record = {
      line: record?.line ?? number,
      last: number,
      end,
      bytes: record ? join(record.bytes, text) : copyOf(text),
    };
    if (open && record.bytes) continue;
    yield { ...record, bytes: withoutReturn(record.bytes) };
    record = undefined;
    open = false;
  }
  if (record) yield record;
}

function join(begun: Buffer | undefined, text: Buffer | undefined): Buffer | undefined {
  const joined = begun && text && Buffer.concat([begun, Buffer.from('\n'), text]);
  return joined && joined.length <= maxLineBytes ? joined : undefined;
}

function copyOf(text: Buffer | undefined): Buffer | undefined {
  return text && Buffer.from(text);
}

function hasOddQuotes(text: Buffer | undefined): boolean {
  let odd = false;
  for (let at = text?.indexOf('"') ?? -1; at !== -1; at = (text as Buffer).indexOf('"', at + 1)) odd = !odd;
  return odd;
}

/** Some programs begin a text in UTF-8 with a byte order mark. */
function withoutMark(text: Buffer | undefined): Buffer | undefined {
  return text?.indexOf('\ufeff') === 0 ? text.subarray(3) : text;
}

function withoutReturn(text: Buffer | undefined): Buffer | undefined {
  return text?.at(-1) === 13 ? text.subarray(0, -1) : text;
}

function isBlank(text: Buffer | undefined): boolean {
  return withoutReturn(text)?.length === 0;
}

/** Reads the first record, the names of the columns in any order, and returns the reading of all others. */
function csvReader(sources: Generator<Source>): (bytes: Buffer) => Values {
  const header = readHeader(sources.next().value);
  return (bytes) => {
    const fields = fieldsOf(bytes);
    if (fields.length !== header.length)
      throw new SyntaxError(`has ${fields.length} fields where the first line has ${header.length}`);
    const values: Values = {};
    for (const [index, column] of header.entries()) {
      const text = fields[index] as string;
      // CSV has no other way to leave one out.
      if (column === 'status' && text === '') continue;
      values[column] = column === 'id' || column === 'categoryId' ? readDecimal(text) : text;
    }
    return values;
  };
}

function readHeader(source: Source | undefined): string[] {
  let header: string[] = [];
  const faults: string[] = [];
  try {
    header = source?.bytes ? fieldsOf(source.bytes) : [];
  } catch (error) {
    faults.push((error as Error).message);
  }
  for (const name of new Set(header)) {
    if (!columns.includes(name)) faults.push(`${quoted(name)} is not a known field`);
    else if (header.indexOf(name) !== header.lastIndexOf(name)) faults.push(`${name} is given more than once`);
  }
  for (const name of ['name', 'categoryId']) if (!header.includes(name)) faults.push(`${name} is required`);
  if (faults.length > 0) throw new CommandError(`line 1, which names the columns: ${joinFaults(faults)}.`);
  return header;
}

function fieldsOf(bytes: Buffer): string[] {
  if (!isUtf8(bytes)) throw new SyntaxError('not valid UTF-8');
  try {
    return readCsv(bytes.toString());
  } catch (error) {
    throw new SyntaxError(`not valid CSV: ${(error as Error).message}`);
  }
}
