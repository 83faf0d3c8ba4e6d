/** Exact signed 64-bit integers: their schema, and a JSON parser that keeps every digit. */
import { isUtf8 } from 'node:buffer';
import { messageOf } from './errors.ts';
import { kind, quoted } from './schema.ts';

const MIN = -(2n ** 63n);
const MAX = 2n ** 63n - 1n;

/** The canonical decimal form of integers in paths and queries. `01`, `+1`, `1.0` and `1e3` are not canonical. */
export const canonicalDecimal = /^-?(?:0|[1-9]\d*)$/;

/** Parses a canonical decimal; returns any other text unchanged. */
export function readDecimal(text: string): bigint | string {
  // Longer text is out of range, and BigInt() takes time that grows with the square of the length.
  return text.length <= 20 && canonicalDecimal.test(text) ? BigInt(text) : text;
}

const integer = kind<bigint>(
  'Int64',
  (value) => typeof value === 'bigint' && value >= MIN && value <= MAX,
  `be an integer from ${MIN} to ${MAX}`,
  { type: 'integer', format: 'int64' },
  { read: readDecimal },
);

/** The schema `{type: integer, format: int64}` for BigInt values: JavaScript numbers are exact only below 2^53. */
export function Int64(annotations: { description: string; examples: number[] }): typeof integer {
  return { ...integer, ...annotations };
}

const jsonNumber = /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/;

/**
 * Parses a JSON number. Integers become exact BigInts, also if written `1.0` or `1e3`, which JSON Schema counts as integers. Integers of
 * more than 19 digits become ±Infinity, so that `1e999999999` costs nothing. All other numbers stay JavaScript numbers.
 */
function readNumber(source: string): bigint | number {
  const [, sign, integer = '', fraction = '', exponent = '0'] = jsonNumber.exec(source) ?? [];
  const digits = `${integer}${fraction}`.replace(/^0+/, '');
  // Not a regular expression: matching trailing zeros takes time that grows with the square of the number of other zeros.
  let end = digits.length;
  while (digits[end - 1] === '0') end -= 1;
  const significant = digits.slice(0, end);
  if (significant === '') return 0n;
  const zeros = Number(exponent) - fraction.length + (digits.length - significant.length);
  if (zeros < 0) return Number(source);
  if (significant.length + zeros > 19) return sign === '-' ? -Infinity : Infinity;
  return BigInt(`${sign}${significant}${'0'.repeat(zeros)}`);
}

function revive(_key: string, value: unknown, { source }: { source?: string }): unknown {
  // Node 26.10 may take the name "\"" for "\\", and then gives no source. No member that is allowed has such a name.
  return typeof value === 'number' && source !== undefined ? readNumber(source) : value;
}

/** Matches numbers that may not be integers. Also matches inside strings. */
const notPlain = /\d[.eE]/;

/** Matches digits that a JavaScript number may not hold exactly. Also matches inside strings. */
const longDigits = /\d{16,}/g;

/** Like `readNumber`, but a microsecond faster. `digits`: the source of the only unsafe number in the text; without it, that number is rounded. */
function exactly(integer: number, digits: string | undefined): bigint | number {
  if (digits === undefined || Number.isSafeInteger(integer)) return BigInt(integer);
  return digits.length > 19 ? integer * Infinity : BigInt(integer < 0 ? `-${digits}` : digits);
}

/** A text with more commas than this is not valid for any operation, whatever its numbers are, and the reviver takes 0.5 µs for each value. */
const maxExactCommas = 1000;

/** Replaces all integers in `value` with BigInts in place, except in very long arrays. Returns the number of object members elsewhere. */
function convertIntegers(value: object, digits?: string): number {
  if (Array.isArray(value) && value.length > maxExactCommas) return 0;
  let members = 0;
  const entries = value as Record<string, unknown>;
  for (const name in entries) {
    const entry = entries[name];
    if (typeof entry === 'number' && Number.isInteger(entry)) entries[name] = exactly(entry, digits);
    else if (typeof entry === 'object' && entry !== null) members += convertIntegers(entry, digits);
    members += 1;
  }
  return Array.isArray(value) ? members - value.length : members;
}

function countColons(text: string): number {
  let count = 0;
  for (let at = text.indexOf(':'); at >= 0; at = text.indexOf(':', at + 1)) count += 1;
  return count;
}

/**
 * JSON.parse with integers as exact BigInts; in a text of more than `maxExactCommas` they may be rounded. Throws SyntaxError if the text is not
 * JSON or an object has duplicate member names, because parsers disagree on which of the two counts (RFC 8259, section 4; RFC 7493, section 2.3).
 */
function parseJson(text: string): unknown {
  const value: unknown = JSON.parse(text);
  const [digits, second] = text.match(longDigits) ?? [];
  const isPlain = typeof value === 'object' && value !== null && second === undefined && !notPlain.test(text);
  // Most bodies: as members and colons match in number, no name is repeated.
  if (isPlain && convertIntegers(value, digits) === countColons(text)) return value;
  const commas = checkNames(text);
  if (isPlain) return value;
  if (commas > maxExactCommas) {
    convertIntegers(value as object);
    return value;
  }
  // TypeScript's types lack the reviver's third argument (ECMAScript, JSON.parse source text access).
  return JSON.parse(text, revive as (key: string, value: unknown) => unknown);
}

/** Parses UTF-8 JSON with integers as exact BigInts. Throws SyntaxError, whose message names the fault. */
export function readJson(bytes: Buffer): unknown {
  if (!isUtf8(bytes)) throw new SyntaxError('not valid UTF-8');
  const text = bytes.toString();
  try {
    return parseJson(text);
  } catch (error) {
    if (error instanceof RangeError) throw new SyntaxError('nested too deeply');
    // V8's message would show the character, which is invisible.
    const fault = text.startsWith('\uFEFF') ? 'it begins with a byte order mark' : faultOf(messageOf(error));
    throw new SyntaxError(`not valid JSON: ${fault}`);
  }
}

/** V8's error message without the excerpt of the input, which could be anything and must not be repeated to others. */
function faultOf(message: string): string {
  return message.replace(/^(Unexpected token .+?), (?:\.{3})?".*$/su, '$1');
}

const [comma, opening, closing, quote] = [...',{}"'].map((character) => character.charCodeAt(0));

/**
 * Requires text that JSON.parse has accepted, where a string followed by a colon is always a member name. Throws SyntaxError if an object has two
 * members of one name. Returns the number of commas between values.
 */
function checkNames(text: string): number {
  /** The names of each object that is open. */
  const open: Set<string>[] = [];
  let commas = 0;
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code === comma) commas += 1;
    else if (code === opening) open.push(new Set());
    else if (code === closing) open.pop();
    else if (code === quote) {
      const start = at;
      for (at += 1; text[at] !== '"'; at += 1) if (text[at] === '\\') at += 1;
      const string = text.slice(start, at + 1);
      while (isSpace(text[at + 1])) at += 1;
      if (text[at + 1] === ':') addName(open.at(-1) as Set<string>, JSON.parse(string));
    }
  }
  return commas;
}

function addName(names: Set<string>, name: string): void {
  if (names.has(name)) throw new SyntaxError(`the member ${quoted(name)} is given more than once`);
  names.add(name);
}

function isSpace(character: string | undefined): boolean {
  return character === ' ' || character === '\n' || character === '\r' || character === '\t';
}
