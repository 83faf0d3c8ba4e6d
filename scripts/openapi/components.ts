/** The components of a document, and the schemas among them. */
import type { TSchema } from '@sinclair/typebox';

export type Json = Record<string, unknown>;

/** Components of the document that is being generated, by section and name. */
export type Components = Record<'parameters' | 'headers' | 'responses' | 'schemas' | 'examples', Json>;

export const ref = (section: keyof Components, name: string) => ({ $ref: `#/components/${section}/${name}` });

/** A plain copy of a schema, with each titled schema moved to components. Copying through JSON drops TypeBox's symbols. */
export function schemaOf(schema: TSchema, { schemas }: Components): unknown {
  const move = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(move);
    if (typeof value !== 'object' || value === null) return value;
    const { title, ...copy } = Object.fromEntries(Object.entries(value).map(([name, child]) => [name, move(child)]));
    if (typeof title !== 'string') return title === undefined ? copy : { title, ...copy };
    const { default: initial, ...shared } = copy;
    schemas[title] ??= shared;
    // In words: generators require a member that has a default.
    const described = { description: `${copy.description} If it is missing, ${initial}.` };
    return { ...ref('schemas', title), ...(initial !== undefined && described) };
  };
  return move(JSON.parse(JSON.stringify(schema)));
}
