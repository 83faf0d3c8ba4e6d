/** Columns of many rows as PostgreSQL reads arrays (https://www.postgresql.org/docs/18/arrays.html#ARRAYS-IO): one parameter each. */

export function textArray(texts: (string | null | undefined)[]): string {
  const elements = texts.map((text) => (typeof text === 'string' ? `"${text.replaceAll(/["\\]/g, '\\$&')}"` : 'NULL'));
  return `{${elements.join()}}`;
}

export function numberArray(numbers: (bigint | number | undefined)[]): string {
  return `{${numbers.map((number) => number ?? 'NULL').join()}}`;
}
