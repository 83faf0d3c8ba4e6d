/** Writes the schemas of responses as TypeScript. */
import { type Document, nameOf, resolve, type Schema } from './document.ts';

export interface Types {
  /** The type of the response. */
  type: string;
  /** The interfaces that it needs. */
  declarations: string[];
}

const integer = ({ maximum }: Schema) =>
  maximum !== undefined && maximum <= Number.MAX_SAFE_INTEGER ? 'number' : 'number | bigint';

const nameOfType: Record<string, string> = { string: 'string', number: 'number', boolean: 'boolean', null: 'null' };

/** Integers that can exceed 2^53 are `number | bigint`. */
export function typesOf(document: Document, schema: Schema): Types {
  const declared = new Map<string, string>();

  function declare(name: string, { properties = {}, required = [] }: Schema): string {
    declared.set(name, '');
    const fields = Object.entries(properties).map(
      ([field, type]) => `  ${field}${required.includes(field) ? '' : '?'}: ${describe(type)};\n`,
    );
    declared.set(name, `interface ${name} {\n${fields.join('')}}`);
    return name;
  }

  function describe(given: Schema): string {
    const full = resolve<Schema>(document, given);
    if (full.enum) return full.enum.map((value) => `'${value}'`).join(' | ');
    if (full.items) return `${describe(full.items)}[]`;
    if (full.properties) {
      const name = given.$ref ? nameOf(given.$ref) : 'Result';
      return declared.has(name) ? name : declare(name, full);
    }
    if (full.type === 'integer') return integer(full);
    return nameOfType[String(full.type)] ?? 'unknown';
  }

  return { type: describe(schema), declarations: [...declared.values()] };
}
