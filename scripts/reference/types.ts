/** Writes the schemas of responses as TypeScript. */
import type { Schema } from './document.ts';

export interface Types {
  /** The type of the response. */
  type: string;
  /** The interfaces that it needs. */
  declarations: string[];
}

/** Integers that can exceed 2^53 are `number | bigint`. */
export function typesOf(schema: Schema): Types {
  const declared = new Map<string, string>();

  function describe({ model = 'Result', type = 'unknown', ...full }: Schema): string {
    if (full.enum) return full.enum.map((value) => `'${value}'`).join(' | ');
    if (full.items) return `${describe(full.items)}[]`;
    if (type === 'integer') return (full.maximum ?? 2n ** 63n) < 2n ** 53n ? 'number' : 'number | bigint';
    if (!full.properties) return type;
    // First, so that it comes before the interfaces that it needs.
    if (!declared.has(model)) declared.set(model, '');
    const fields = Object.entries(full.properties).map(
      ([name, field]) => `  ${name}${full.required?.includes(name) ? '' : '?'}: ${describe(field)};\n`,
    );
    declared.set(model, `interface ${model} {\n${fields.join('')}}`);
    return model;
  }

  return { type: describe(schema), declarations: [...declared.values()] };
}
