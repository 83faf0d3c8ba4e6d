/** Reads an OpenAPI document, with every reference replaced by what it points to. */
import { parse } from 'yaml';

export interface Schema {
  /** Its name among the components. */
  model?: string;
  type?: string;
  format?: string;
  description?: string;
  enum?: unknown[];
  default?: unknown;
  minimum?: bigint;
  maximum?: bigint;
  minLength?: bigint;
  maxLength?: bigint;
  pattern?: string;
  maxItems?: bigint;
  items?: Schema;
  required?: string[];
  properties?: Record<string, Schema>;
}

export interface Example {
  summary?: string;
  value?: unknown;
}

export interface Media {
  schema: Schema;
  example?: unknown;
  examples?: Record<string, Example>;
}

export interface Parameter extends Media {
  name: string;
  in: 'path' | 'query' | 'header';
  required?: boolean;
  description?: string;
}

interface Body {
  description?: string;
  content?: { 'application/json': Media };
}

export interface Response extends Body {
  headers?: Record<string, { description?: string }>;
}

export interface Operation {
  operationId: string;
  summary: string;
  description?: string;
  tags: [string];
  deprecated?: boolean;
  parameters?: Parameter[];
  requestBody?: Body;
  responses: Record<string, Response>;
  security?: { apiKey: string[] }[];
  'x-stability'?: string;
  'x-deprecated-sunset'?: string;
  'x-hideTryItPanel'?: boolean;
}

export interface Document {
  info: { title: string; version: string };
  servers: [{ url: string; variables: Record<string, { default: string }> }];
  tags: { name: string; description?: string }[];
  paths: Record<string, Record<string, Operation>>;
  components: { schemas: Record<string, Schema> };
}

type Tree = { [name: string]: Tree };

/** Integers become bigints: an example can exceed 2^53. Throws if a reference leads nowhere. */
export function parseDocument(yaml: string): Document {
  const document = parse(yaml, { intAsBigInt: true }) as Tree;
  function follow(part: unknown): unknown {
    if (Array.isArray(part)) return part.map(follow);
    if (typeof part !== 'object' || part === null) return part;
    const { $ref, ...own } = part as { $ref?: string };
    const [, ...steps] = $ref?.split('/') ?? [];
    const target = $ref && steps.reduce((found: Tree | undefined, step) => found?.[step], document);
    if ($ref && target === undefined) throw new Error(`${$ref} does not exist.`);
    const model = steps[1] === 'schemas' ? { model: steps[2] } : {};
    const all = Object.entries({ ...(target as object), ...own, ...model });
    return Object.fromEntries(all.map(([name, value]) => [name, follow(value)]));
  }
  return follow(document) as Document;
}

/** The address of the first server, with the defaults of its variables. */
export const serverOf = ({ servers: [{ url, variables }] }: Document) =>
  url.replace(/\{(\w+)\}/g, (_, name: string) => variables[name]?.default ?? '');

/** The examples of a part, each with a summary or its name. */
export function examplesOf({ example, examples = {} }: Media): Example[] {
  const named = Object.entries(examples).map(([name, given]) => ({ summary: name, ...given }));
  return example === undefined ? named : [{ value: example }, ...named];
}

/** JSON with every digit. `space`: as in JSON.stringify. */
export function toJson(value: unknown, space?: number): string {
  const { rawJSON } = JSON as unknown as { rawJSON: (json: string) => unknown };
  return JSON.stringify(value, (_, part) => (typeof part === 'bigint' ? rawJSON(String(part)) : part), space);
}
