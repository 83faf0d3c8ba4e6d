/** Tests that the examples of the OpenAPI documents are what the server answers. */
import type { FastifyInstance } from 'fastify';
import { expect, test } from 'vitest';
import { startApp, type TestApp } from '../../support/app.ts';
import { describedOperations } from '../../support/valid-requests.ts';

interface Part {
  examples?: Record<string, { value: unknown }>;
}
interface Content {
  content?: Record<string, Part>;
}
interface Operation {
  operationId: string;
  method: string;
  /** With the prefix of the server, and {petId}. */
  path: string;
  parameters?: (Part & { name: string; in: string; required: boolean })[];
  requestBody?: Content;
  responses: Record<string, Content & { headers: Record<string, Part> }>;
}

const all = describedOperations<Operation>();

const json = (part?: Content) => part?.content?.['application/json'];

const namesOf = (part: Part | undefined) => Object.keys(part?.examples ?? {});
const valueIn = (part: Part | undefined, name: string) => part?.examples?.[name]?.value;

/** The parameters of each example, by operation and name: the document has none that are optional, because tools would send them with every request. */
const given: Record<string, Record<string, { parameters?: Record<string, unknown> }>> = {};
const watch = async (app: FastifyInstance) =>
  void app.addHook('onRoute', ({ config }) => {
    const { operationId, examples = {} } = config?.operation ?? {};
    if (operationId) given[operationId] = examples;
  });

/** Sends the request that the examples with this name form. */
function send({ call }: TestApp, { operationId, method, path, parameters = [], requestBody }: Operation, name: string) {
  const sent = parameters.flatMap((parameter) => {
    const value = given[operationId]?.[name]?.parameters?.[parameter.name];
    expect(value, parameter.name).toBe(parameter.required ? valueIn(parameter, name) : value);
    return value === undefined ? [] : { name: parameter.name, in: parameter.in, text: String(value) };
  });
  const inside = (place: string) => sent.filter((each) => each.in === place).map(({ name, text }) => [name, text]);
  const values = Object.fromEntries(inside('path'));
  const target = `${path.replace(/\{(\w+)\}/g, (_, key) => values[key])}?${new URLSearchParams(inside('query'))}`;
  return call(method, target, {
    headers: Object.fromEntries(inside('header')),
    body: valueIn(json(requestBody), name),
  });
}

/** The names of the examples that an operation has for its requests and successes. */
const examplesOf = ({ requestBody, parameters = [], responses }: Operation) => {
  const successes = Object.entries(responses).filter(([status]) => Number(status) < 300);
  const parts = [json(requestBody), ...parameters, ...successes.map(([, response]) => json(response))];
  return [...new Set(parts.flatMap(namesOf))];
};
/** Without the times and the ids that the server chooses: others than those of animals. */
const comparable = (body: unknown) =>
  JSON.parse(
    JSON.stringify(body).replace(/"[\d-]{10}T[\d:.]{12}Z"|(?<=_)[\da-f]{32}(?=")/g, (text) => {
      return text.startsWith('"') ? '"a time"' : 'an id';
    }),
  );

test('the example requests return the example responses of the same names, after those of createPet', async () => {
  const createPet = all.find(({ operationId }) => operationId === 'createPet') as Operation;
  let sent = 0;
  for (const operation of all.filter(({ method }) => !['HEAD', 'OPTIONS'].includes(method))) {
    const app = await startApp({ watch });
    if (operation !== createPet) for (const name of examplesOf(createPet)) await send(app, createPet, name);
    for (const name of examplesOf(operation)) {
      const { status, json: body, headers } = await send(app, operation, name);
      const response = operation.responses[status];
      expect(comparable(body), `${operation.operationId} ${name}`).toEqual(comparable(valueIn(json(response), name)));
      if (name === 'first-page')
        expect(valueIn(response?.headers.Link, 'page')).toBe(
          String(headers.link).replaceAll('</', '<https://api.example.com/'),
        );
      sent += 1;
    }
  }
  expect(sent).toBeGreaterThan(9);
});

test('HEAD has the status and the headers of GET', async () => {
  const { add, call, newKey } = await startApp();
  await add({ name: 'Biscuit', categoryId: 7 });
  const { key } = await newKey({ scopes: ['pets:write'] });
  for (const { path } of all.filter(({ method }) => method === 'GET')) {
    const target = path.replace(/\{\w+\}/g, '1');
    for (const [url, options] of [
      [target, {}],
      [`${target}?limit=0`, {}],
      [target, { key }],
    ] as const) {
      const [get, head] = [await call('GET', url, options), await call('HEAD', url, options)];
      // The others are of this request, or of its connection.
      const own = ['x-request-id', 'date', 'connection', 'keep-alive'];
      const comparable = ({ headers }: typeof get) =>
        Object.fromEntries(Object.entries(headers).filter(([name]) => !own.includes(name)));
      expect([url, head.status, head.text, comparable(head)]).toEqual([url, get.status, '', comparable(get)]);
    }
  }
});
