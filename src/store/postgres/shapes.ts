/** Builds one statement for reads of several shapes, and takes its rows apart. */
import type { StoreState } from '../../core/pets.ts';
import { textFor } from '../steps.ts';
import type { Prepared } from './sql.ts';

/** A SELECT of one place in the source, for values of these types, as an expression that is one text. Its values are columns of `asked`. */
export interface Shape {
  number: number;
  expression: string;
  types: string[];
  /** Whether the state is read with it. */
  withState: boolean;
}

/** After this much text, what remains is asked for again: a page may have 6 MB. */
const maxBytes = 1024 * 1024;

/** Sets of shapes whose statement is prepared. Of more, each connection would keep too many plans. */
const maxPrepared = 64;

/**
 * `version` is the highest id: an addition raises it. `revision` also tells one database from another, and a database from itself before a
 * restart: only a restart, a promotion or a restored dump can give an id twice.
 */
export const stateShape: Shape = {
  number: 0,
  expression: `SELECT coalesce((SELECT max(id) FROM pet), 0) || ' ' || revision || ' ' || 'pet'::regclass::oid || ' ' || pg_postmaster_start_time()
    FROM pet_revision`,
  types: [],
  withState: true,
};

const shapes = new Map<TemplateStringsArray, Map<string, Shape>>();
let shapeCount = 0;
const statements = new Map<string, Prepared>();

function typeOf(value: unknown): string {
  if (typeof value === 'number' || typeof value === 'bigint') return 'bigint';
  return Buffer.isBuffer(value) ? 'bytea' : 'text';
}

export function shapeOf(
  texts: TemplateStringsArray,
  given: readonly unknown[],
  values: unknown[],
  rows: boolean,
): Shape {
  const types = values.map(typeOf);
  const known = shapes.get(texts) ?? new Map<string, Shape>();
  const shape = known.get(types.join());
  if (shape) return shape;
  const select = textFor('postgres', texts, given, (place) => `asked.v${place}`);
  shapeCount += 1;
  const made: Shape = {
    number: shapeCount,
    expression: rows ? `SELECT json_agg(row_to_json(found))::text FROM (${select}) AS found` : select,
    types,
    withState: !rows,
  };
  shapes.set(texts, known.set(types.join(), made));
  return made;
}

/**
 * One row for each read: the place of its shape, its own place among those of the shape, and its text, which is NULL if there is too much text
 * before it. OFFSET 0 keeps the planner from evaluating the texts twice.
 */
function textOf(all: Shape[]): string {
  let parameters = 0;
  const parts = all.map(({ expression, types }, place) => {
    if (types.length === 0) return `SELECT ${place}, 1::bigint, (${expression})`;
    const arrays = types.map((type) => `$${++parameters}::${type}[]`);
    const names = types.map((_, index) => `v${index + 1}`);
    return `SELECT ${place}, n, (${expression}) FROM unnest(${arrays.join()}) WITH ORDINALITY AS asked (${names.join()}, n)`;
  });
  return `
    SELECT shape, n::integer, CASE WHEN coalesce(sum(octet_length(text)) OVER before, 0) <= ${maxBytes} THEN text END
    FROM (SELECT shape, n, coalesce(text, '') AS text FROM (${parts.join(' UNION ALL ')}) AS found (shape, n, text) OFFSET 0) AS found
    WINDOW before AS (ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)`;
}

export function statementOf(all: Shape[]): Prepared {
  const name = `r${all.map(({ number }) => number).join('_')}`;
  const known = statements.get(name);
  if (known) return known;
  const text = textOf(all);
  if (statements.size >= maxPrepared) return { text };
  statements.set(name, { name, text });
  return { name, text };
}

/** Integers become decimal text, as in the rows of the driver: they may be beyond 2^53. */
const exact = (_key: string, value: unknown, { source }: { source: string }) =>
  typeof value === 'number' ? source : value;

const parse = JSON.parse as (text: string, reviver: typeof exact) => unknown[];
export const rowsOf = (text: string) => (text === '' ? [] : parse(text, exact));

/** Equal to no state, not even to itself. */
const noState: StoreState = { version: Number.NaN, revision: Number.NaN };

export function stateOf(text: string): StoreState {
  const end = text.indexOf(' ');
  // The row is missing.
  if (end < 0) return noState;
  return { version: text.slice(0, end), revision: text.slice(end + 1) };
}
