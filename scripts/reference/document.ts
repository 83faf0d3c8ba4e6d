/** Reads an OpenAPI document, and follows its references. */
import { parse } from 'yaml';

export interface Schema {
  $ref?: string;
  type?: string | string[];
  format?: string;
  description?: string;
  enum?: unknown[];
  const?: unknown;
  default?: unknown;
  examples?: unknown[];
  minimum?: bigint;
  maximum?: bigint;
  minLength?: bigint;
  maxLength?: bigint;
  pattern?: string;
  items?: Schema;
  anyOf?: Schema[];
  oneOf?: Schema[];
  required?: string[];
  properties?: Record<string, Schema>;
}

export interface Reference {
  $ref: string;
}

interface Examples {
  example?: unknown;
  examples?: Record<string, Example | Reference>;
}

export interface Example {
  summary?: string;
  value?: unknown;
}

export interface Media extends Examples {
  schema: Schema;
}

export interface Parameter extends Examples {
  name: string;
  in: 'path' | 'query' | 'header' | 'cookie';
  required?: boolean;
  description?: string;
  schema: Schema;
}

export interface Header {
  description?: string;
}

export interface Response {
  description: string;
  headers?: Record<string, Header | Reference>;
  content?: Record<string, Media>;
  links?: Record<string, Link | Reference>;
}

interface Link {
  operationId?: string;
  description?: string;
}

export interface Operation {
  operationId: string;
  summary: string;
  description?: string;
  tags?: string[];
  deprecated?: boolean;
  parameters?: (Parameter | Reference)[];
  requestBody?: Body | Reference;
  responses: Record<string, Response | Reference>;
  security?: Record<string, string[]>[];
  'x-stability'?: string;
  'x-deprecated-sunset'?: string;
  'x-hideTryItPanel'?: boolean;
}

export interface Body {
  description?: string;
  content: Record<string, Media>;
}

type PathItem = { parameters?: (Parameter | Reference)[] } & Record<string, Operation>;

export interface Document {
  info: { title: string };
  servers: { url: string; variables?: Record<string, { default: string }> }[];
  tags: { name: string; description?: string }[];
  paths: Record<string, PathItem>;
  components: { schemas: Record<string, Schema> };
}

/** Integers become bigints: an example can exceed 2^53. */
export const parseDocument = (yaml: string) => parse(yaml, { intAsBigInt: true }) as Document;

/** The last part of a reference, for example Pet. */
export const nameOf = (reference: string) => reference.slice(reference.lastIndexOf('/') + 1);

/** The part that a reference points to, with the siblings of `$ref` in its place. Throws if there is none. */
export function resolve<Part extends object>(document: Document, part: Part | Reference): Part {
  if (!('$ref' in part) || typeof part.$ref !== 'string') return part as Part;
  const { $ref, ...siblings } = part as Reference;
  const steps = $ref.split('/').slice(1);
  // JSON Pointer escapes (RFC 6901, section 4).
  const names = steps.map((step) => step.replaceAll('~1', '/').replaceAll('~0', '~'));
  let target: unknown = document;
  for (const name of names) target = (target as Record<string, unknown> | undefined)?.[name];
  if (target === undefined) throw new Error(`${$ref} does not exist.`);
  return resolve(document, { ...(target as Part), ...siblings });
}

/** The address of the first server, with the defaults of its variables. */
export function serverOf({ servers: [server] }: Document): string {
  if (!server) throw new Error('The document names no server.');
  return server.url.replace(/\{(\w+)\}/g, (_, name: string) => server.variables?.[name]?.default ?? '');
}

/** The examples of a part, by name. */
export function examplesOf(document: Document, { example, examples = {} }: Examples): Example[] {
  const named = Object.entries(examples).map(([name, given]) => ({ summary: name, ...resolve(document, given) }));
  return example === undefined ? named : [{ value: example }, ...named];
}

/** JSON with every digit. `space`: as in JSON.stringify. */
export function toJson(value: unknown, space?: number): string {
  const { rawJSON } = JSON as unknown as { rawJSON: (json: string) => unknown };
  return JSON.stringify(value, (_, part) => (typeof part === 'bigint' ? rawJSON(String(part)) : part), space);
}
