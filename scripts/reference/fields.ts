/** Describes schemas in words: their types, their limits and their fields. */
import { type Document, nameOf, resolve, type Schema, toJson } from './document.ts';
import { toInlineHtml } from './text.ts';

export interface Field {
  name: string;
  /** HTML. */
  type: string;
  required: boolean;
  /** HTML. */
  text: string;
}

const code = (value: unknown) => `\`${typeof value === 'string' ? value : toJson(value)}\``;

/** For example "1 to 100", "at least 1" or "at most 255 characters". */
function range(least: bigint | undefined, most: bigint | undefined, unit = ''): string[] {
  if (least === undefined && most === undefined) return [];
  const plural = unit && (most ?? least) === 1n ? unit.slice(0, -1) : unit;
  if (most === undefined) return [`at least ${least}${plural}`];
  return [least === undefined ? `at most ${most}${plural}` : `${least} to ${most}${plural}`];
}

/** The id of the place in the page that describes a schema. */
export const modelId = (slug: string, name: string) => `${slug}/model/${name}`;

/** Creates a function that describes the type of a schema as Markdown. `linked`: the names of the schemas that the page describes apart. */
export function createTypes(document: Document, slug: string, linked: Set<string>): (schema: Schema) => string {
  function describe(schema: Schema): string {
    if (schema.$ref && linked.has(nameOf(schema.$ref))) {
      const name = nameOf(schema.$ref);
      return `[${name}](#${modelId(slug, name)})`;
    }
    const full = resolve(document, schema) as Schema;
    const words = [kind(full), ...range(full.minimum, full.maximum)];
    words.push(...range(full.minLength, full.maxLength, ' characters'));
    if (full.pattern !== undefined) words.push(`pattern ${code(full.pattern)}`);
    if (full.default !== undefined) words.push(`default ${code(full.default)}`);
    return words.join(', ');
  }

  function kind({ type, format, items, enum: values, const: only, anyOf, oneOf }: Schema): string {
    if (only !== undefined) return code(only);
    if (values) return values.map(code).join(' or ');
    const choices = anyOf ?? oneOf;
    if (choices) return choices.map(describe).join(' or ');
    if (items) return `array of ${describe(items)}`;
    const name = Array.isArray(type) ? type.join(' or ') : (type ?? 'any value');
    return format ? `${name} (${format})` : name;
  }
  return describe;
}

/** Where the page says something: an id and its title. */
export interface Place {
  id: string;
  title: string;
}

/** HTML of the text of a field or parameter; a link if the page already says the same elsewhere. */
export type Tell = (name: string, markdown: string | undefined, place: Place) => string;

/** Creates a function that gives each text once. Call it in the order of the page. */
export function createTell(): Tell {
  const told = new Map<string, Place>();
  return (name, markdown = '', place) => {
    const first = told.get(name + markdown);
    if (first && markdown) return toInlineHtml(`See [${first.title}](#${first.id}).`);
    told.set(name + markdown, place);
    return toInlineHtml(markdown);
  };
}

export interface Describe {
  document: Document;
  describe: (schema: Schema) => string;
  tell: Tell;
}

export function fieldsOf({ document, describe, tell }: Describe, schema: Schema, place: Place): Field[] {
  const { properties = {}, required = [] } = resolve(document, schema) as Schema;
  return Object.entries(properties).map(([name, property]) => ({
    name,
    type: toInlineHtml(describe(property)),
    required: required.includes(name),
    text: tell(name, (resolve(document, property) as Schema).description, place),
  }));
}
