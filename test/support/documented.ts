/** Checks responses against the OpenAPI documents. */
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import formats from 'ajv-formats';
import { type Document, documentNames, nameIn, prefixes, type Response, readDocument } from './described.ts';

export interface Answer {
  status: number;
  headers: Record<string, string | string[] | undefined>;
  text: string;
}

/** Headers that HTTP itself requires, or that OpenAPI does not describe under `headers`; and those that the introduction names for all responses. */
const transport = [
  'date',
  'connection',
  'keep-alive',
  'content-length',
  'content-type',
  'transfer-encoding',
  'x-content-type-options',
  'content-security-policy',
];

const documents = documentNames.map((name) => {
  const document = readDocument(name);
  const ajv = new Ajv2020({ strict: false, allErrors: true });
  formats.default(ajv);
  ajv.addSchema(document as object, name);
  return {
    name,
    prefix: prefixes[name],
    document,
    ajv,
    validators: new Map<string, ValidateFunction>(),
  };
});

/** Throws if `answer` is not a documented response to `method` on `path`. Paths outside the documents pass. */
export function expectDocumented(method: string, path: string, answer: Answer) {
  const pathname = path.replace(/\?.*$/s, '');
  for (const { name, prefix, document, ajv, validators } of documents) {
    if (!pathname.startsWith(`${prefix}/`)) continue;
    const rest = pathname.slice(prefix.length);
    // A path without parameters comes before one with parameters (OpenAPI 3.1, section 4.8.8).
    const template = Object.keys(document.paths)
      .sort((one, other) => Number(one.includes('{')) - Number(other.includes('{')))
      .find((known) => new RegExp(`^${known.replace(/\{\w+\}/g, '[^/]+')}$`).test(rest));
    const verb = method.toLowerCase();
    const operation = template === undefined ? undefined : document.paths[template]?.[verb];
    if (!operation) continue;

    const where = `${method} ${path} → ${answer.status}`;
    const listed = operation.responses[answer.status];
    if (!listed) throw new Error(`${where}: this status is not in ${name}`);
    const response = listed.$ref ? document.components.responses[nameIn(listed.$ref)] : listed;
    expectHeaders(where, document, response?.headers ?? {}, answer);

    if (!response?.content) {
      if (answer.text !== '') throw new Error(`${where}: has a body, but none is documented`);
      continue;
    }
    if (answer.headers['content-type'] !== 'application/json')
      throw new Error(`${where}: content-type ${answer.headers['content-type']}`);
    const owner = listed.$ref ?? `#/paths/${template?.replaceAll('/', '~1')}/${verb}/responses/${answer.status}`;
    const pointer = `${name}${encodeURI(owner)}/content/application~1json/schema`;
    const validate = validators.get(pointer) ?? ajv.compile({ $ref: pointer });
    validators.set(pointer, validate);
    if (!validate(JSON.parse(answer.text)))
      throw new Error(`${where}: ${ajv.errorsText(validate.errors)} in ${answer.text}`);
    if (answer.status < 400) continue;
    const { code } = JSON.parse(answer.text);
    if (!errorsOf(document, response.content).some((error) => error.code === code))
      throw new Error(`${where}: the code ${code} is not documented`);
  }
}

/** The errors that a response documents as its examples. */
function errorsOf({ components }: Document, content: NonNullable<Response['content']>): { code: string }[] {
  const examples = Object.values(content['application/json']?.examples ?? {});
  return examples.flatMap(({ $ref, value }) => ($ref ? components.examples[nameIn($ref)]?.value : value) ?? []);
}

function expectHeaders(
  where: string,
  document: Document,
  documented: Record<string, { $ref: string }>,
  answer: Answer,
) {
  const names = Object.keys(documented).map((name) => name.toLowerCase());
  for (const name of Object.keys(answer.headers)) {
    if (!names.includes(name) && !transport.includes(name))
      throw new Error(`${where}: the header ${name} is not documented`);
  }
  for (const [name, { $ref }] of Object.entries(documented)) {
    const required = document.components.headers[nameIn($ref)]?.required;
    if (required && answer.headers[name.toLowerCase()] === undefined)
      throw new Error(`${where}: the header ${name} is missing`);
  }
}
