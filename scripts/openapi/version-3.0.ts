/** Converts an OpenAPI 3.1 document to 3.0, for generators that do not read 3.1. */

/** Converts what the documents use. `npm run check` validates the result against the schema of 3.0. */
function convert(part: unknown): unknown {
  if (Array.isArray(part)) return part.map(convert);
  if (typeof part !== 'object' || part === null) return part;
  const members = Object.entries(part);
  return Object.fromEntries(
    members.map(([name, value]): [string, unknown] => {
      // In 3.0 a reference has no neighbours.
      if (name === '$ref' && members.length > 1) return ['allOf', [{ $ref: value }]];
      if (name === 'const') return ['enum', [value]];
      // A schema has a list of them; a body has names.
      if (name === 'examples' && Array.isArray(value)) return ['example', value[0]];
      if (name === 'identifier') return ['url', `https://spdx.org/licenses/${value}.html`];
      // In 3.0 only OAuth 2 has scopes.
      if (name === 'apiKey' && Array.isArray(value)) return [name, []];
      return [name, name === 'value' ? value : convert(value)];
    }),
  );
}

export const toVersion30 = (document: unknown) => ({ ...(convert(document) as object), openapi: '3.0.3' });
