/** Exact signed 64-bit integers: their schema, and a JSON parser that keeps every digit. */
import { isUtf8 } from 'node:buffer';
import { messageOf } from './errors.ts';
import { kind } from './schema.ts';

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

/** The digits of a JSON number without the zeros around them, whatever its sign, point and exponent are. The look-behind keeps the time linear. */
const digitsOf = (source: string) => source.replace(/[eE].*|[-.]/g, '').replace(/^0+|(?<!0)0+$/g, '');

/**
 * A reviver that makes integers exact BigInts. `1.0` and `1e3` are integers, too (JSON Schema), up to 2^53. All other numbers stay JavaScript numbers: those
 * with more than 19 digits, because BigInt() takes time that grows with the square of the length, and fractions, which JSON.parse may round to an integer.
 */
function revive(_name: string, value: unknown, { source }: { source?: string }): unknown {
  // Node 26.10 may take the name "\"" for "\\", and then gives no source. No member that is allowed has such a name.
  if (typeof value !== 'number' || source === undefined) return value;
  if (!Number.isSafeInteger(value)) return /^-?\d{1,19}$/.test(source) ? BigInt(source) : value;
  const digits = String(value);
  return source === digits || digitsOf(source) === digitsOf(digits) ? BigInt(value) : value;
}

/** A text with more commas than this is not valid for any operation, and the reviver takes half a microsecond for each value. */
const maxCommas = 10_000;

/** JSON.parse with integers as exact BigInts, except in a text of more than `maxCommas`. Of two members of one name, the last counts. */
function parseJson(text: string): unknown {
  if (text.length > maxCommas && text.split(',', maxCommas + 2).length > maxCommas + 1) return JSON.parse(text);
  // TypeScript's types lack the reviver's third argument (ECMAScript, JSON.parse source text access).
  return JSON.parse(text, revive as (name: string, value: unknown) => unknown);
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
