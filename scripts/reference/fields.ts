/** Describes schemas in words: their types, their limits and their fields. */
import { type Schema, toJson } from './document.ts';
import { toInlineHtml } from './text.ts';

const code = (value: unknown) => `\`${typeof value === 'string' ? value : toJson(value)}\``;

/** For example "1 to 100", "at least 1" or "at most 255 characters". */
function range(least: bigint | undefined, most: bigint | undefined, noun = ''): string[] {
  if (least === undefined && most === undefined) return [];
  const unit = noun && (most ?? least) !== 1n ? `${noun}s` : noun;
  if (most === undefined) return [`at least ${least}${unit}`];
  return [least === undefined ? `at most ${most}${unit}` : `${least} to ${most}${unit}`];
}

/** The id of the place in the page that describes a schema. */
export const modelId = (slug: string, name: string) => `${slug}/model/${name}`;

const valuesOf = (values: unknown[]) => values.map(code).join(' or ');

/** Creates a function that describes the type of a schema as Markdown. `linked`: the names of the schemas that the page describes apart. */
export function createTypes(slug: string, linked: string[]): (schema: Schema) => string {
  return function describe(schema: Schema): string {
    const { model, type = 'any value', format, items, enum: values, pattern } = schema;
    if (model && linked.includes(model))
      return [`[${model}](#${modelId(slug, model)})`, ...(values ? [valuesOf(values)] : [])].join(': ');
    if (items) return [`array of ${describe(items)}`, ...range(undefined, schema.maxItems, ' item')].join(', ');
    const words = [values ? valuesOf(values) : format ? `${type} (${format})` : type];
    words.push(...range(schema.minimum, schema.maximum));
    words.push(...range(schema.minLength, schema.maxLength, ' character'));
    if (pattern) words.push(`matches ${code(pattern)}`);
    if (schema.default !== undefined) words.push(`default ${code(schema.default)}`);
    return words.join(', ');
  };
}

export interface Describe {
  describe: (schema: Schema) => string;
}

/** HTML of a schema of its own, which has values in place of fields; undefined for an object. */
export const ownType = ({ enum: values }: Schema) => values && toInlineHtml(valuesOf(values));

/** The fields of an object; their types and texts are HTML. */
export const fieldsOf = ({ describe }: Describe, { properties = {}, required = [] }: Schema) =>
  Object.entries(properties).map(([name, property]) => ({
    name,
    type: toInlineHtml(describe(property)),
    required: required.includes(name),
    text: toInlineHtml(property.description),
  }));
