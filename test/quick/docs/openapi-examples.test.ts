/** Tests that the examples of the OpenAPI documents are what the server answers. */
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
  parameters?: (Part & { name: string; in: string })[];
  requestBody?: Content;
  responses: Record<string, Content & { headers: Record<string, Part> }>;
}

const all = describedOperations<Operation>();

const json = (part?: Content) => part?.content?.['application/json'];

const namesOf = (part: Part | undefined) => Object.keys(part?.examples ?? {});
const valueIn = (part: Part | undefined, name: string) => part?.examples?.[name]?.value;

/** Sends the request that the examples with this name form. */
function send({ call }: TestApp, { method, path, parameters = [], requestBody }: Operation, name: string) {
  const given = parameters.flatMap((parameter) => {
    const value = valueIn(parameter, name);
    return value === undefined ? [] : { name: parameter.name, in: parameter.in, text: String(value) };
  });
  const inside = (place: string) => given.filter((each) => each.in === place).map(({ name, text }) => [name, text]);
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
    const app = await startApp();
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
