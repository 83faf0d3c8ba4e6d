/** The exact signed 64-bit integer: its schema, and the reading of JSON that keeps every digit. */
import { isUtf8 } from 'node:buffer';
import { kind, quoted } from './schema.ts';

const MIN = -(2n ** 63n);
const MAX = 2n ** 63n - 1n;

const integer = kind<bigint>(
  'Int64',
  (value) => typeof value === 'bigint' && value >= MIN && value <= MAX,
  `be an integer from ${MIN} to ${MAX}`,
  { type: 'integer', format: 'int64' },
);

/** `{type: integer, format: int64}` over BigInt: JavaScript's own numbers are exact only below 2^53. */
export function Int64(annotations: { description: string; examples: number[] }): typeof integer {
  return { ...integer, ...annotations };
}

/** A canonical decimal, as paths and queries carry integers: `01`, `+1`, `1.0` and `1e3` are not. */
export const canonicalDecimal = /^-?(?:0|[1-9]\d*)$/;

/** The integer that a canonical decimal stands for; any other text as it is. */
export function readDecimal(text: string): bigint | string {
  // Longer ones are out of range, and BigInt's time grows with the square of the length.
  return text.length <= 20 && canonicalDecimal.test(text) ? BigInt(text) : text;
}

const jsonNumber = /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/;

/**
 * Reads the text of a JSON number. Integers, also written `1.0` or `1e3` (JSON Schema counts both as integers),
 * become exact BigInts; integers of more than 19 digits become ±Infinity, so that `1e999999999` costs nothing;
 * everything else stays a number.
 */
function readNumber(source: string): bigint | number {
  const [, sign, whole, fraction = '', exponent = '0'] = jsonNumber.exec(source) as RegExpExecArray;
  const digits = `${whole}${fraction}`.replace(/^0+/, '');
  // Not a regular expression: one for zeros at the end alone takes a time that grows with the square of the zeros elsewhere.
  let end = digits.length;
  while (digits[end - 1] === '0') end -= 1;
  const significant = digits.slice(0, end);
  if (significant === '') return 0n;
  const zeros = Number(exponent) - fraction.length + (digits.length - significant.length);
  if (zeros < 0) return Number(source);
  if (significant.length + zeros > 19) return sign === '-' ? -Infinity : Infinity;
  return BigInt(`${sign}${significant}${'0'.repeat(zeros)}`);
}

function revive(_key: string, value: unknown, context: { source?: string }): unknown {
  return typeof value === 'number' ? readNumber(context.source as string) : value;
}

/** A number that may be no integer, or one that a JavaScript number does not hold exactly. Also where it stands in a string. */
const notPlain = /\d(?:[.eE]|\d{15})/;

/** Turns all numbers within `value`, which are integers, into BigInts, in place. Returns how many members its objects have. */
function convertPlain(value: object): number {
  let members = 0;
  const entries = value as Record<string, unknown>;
  for (const name in entries) {
    const entry = entries[name];
    if (typeof entry === 'number') entries[name] = BigInt(entry);
    else if (typeof entry === 'object' && entry !== null) members += convertPlain(entry);
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
 * JSON.parse with exact integers (as BigInt). Throws SyntaxError where the text is not JSON, or where an object names
 * a member twice: which of the two counts differs from reader to reader (RFC 8259, section 4; RFC 7493, section 2.3).
 */
function parseJson(text: string): unknown {
  // Most bodies are plain: neither the source of a number nor a search for repeated names is needed.
  if (!notPlain.test(text)) {
    const value: unknown = JSON.parse(text);
    if (typeof value === 'object' && value !== null && convertPlain(value) === countColons(text)) return value;
  }
  // TypeScript's library does not know the reviver's third argument yet (ECMAScript, JSON.parse source text access).
  const value = JSON.parse(text, revive as (key: string, value: unknown) => unknown);
  refuseDuplicateNames(text);
  return value;
}

/** parseJson of bytes. Throws SyntaxError, with what is wrong with them. */
export function readJson(bytes: Buffer): unknown {
  if (!isUtf8(bytes)) throw new SyntaxError('not valid UTF-8');
  try {
    return parseJson(bytes.toString());
  } catch (error) {
    const fault = error instanceof RangeError ? 'nested too deeply' : `not valid JSON: ${faultOf(error as Error)}`;
    throw new SyntaxError(fault);
  }
}

/** What V8 says of a JSON text, without the piece of it that V8 may repeat: that may be anything, and what is said is passed on. */
function faultOf({ message }: Error): string {
  return message.replace(/^(Unexpected token .+?), (?:\.{3})?".*$/su, '$1');
}

/** Only for text that JSON.parse has accepted: a string followed by a colon is then always a member name. */
function refuseDuplicateNames(text: string): void {
  const open: Set<string>[] = [];
  for (const [token, name] of text.matchAll(/("(?:[^"\\]|\\.)*")\s*:|"(?:[^"\\]|\\.)*"|[{}]/g)) {
    if (token === '{') open.push(new Set());
    else if (token === '}') open.pop();
    else if (name !== undefined) {
      const names = open.at(-1) as Set<string>;
      const unescaped: string = JSON.parse(name);
      if (names.has(unescaped)) throw new SyntaxError(`the member ${quoted(unescaped)} is given more than once`);
      names.add(unescaped);
    }
  }
}
