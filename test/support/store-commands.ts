/** Random commands for a server. Each checks the response against a simple model of the store. */
import { setTimeout as sleep } from 'node:timers/promises';
import fc from 'fast-check';
import { request } from 'undici';
import { expect } from 'vitest';
import { type Answer, expectDocumented } from './documented.ts';
import { keepExchange } from './exchanges.ts';
import { type Server, startServer } from './process.ts';

interface NewPet {
  name: string;
  categoryId: bigint;
  status?: string | undefined;
}

/** The expected state of the store. The pet with id n is at index n - 1. */
interface Model {
  pets: { json: string; status: string }[];
  /** Idempotency-Key → request body, and id of the pet that it added. */
  retries: Map<string, { requestBody: string; id: number }>;
  /** Path → its last response body and ETag. */
  seen: Map<string, { text: string; etag: string }>;
}

export interface Real {
  server: Server;
  key: string;
}

type Command = fc.AsyncCommand<Model, Real>;
type Result = Answer & { code?: string | undefined };

const command = (name: string, run: Command['run']): Command => ({ check: () => true, run, toString: () => name });

async function ask({ server, key }: Real, method: string, path: string, body?: string, more = {}): Promise<Result> {
  const headers = {
    authorization: `Bearer ${key}`,
    ...(body !== undefined && { 'content-type': 'application/json' }),
    ...more,
  };
  const response = await request(server.url + path, { method: method as 'GET', headers, body: body ?? null });
  const answer = { status: response.statusCode, headers: response.headers, text: await response.body.text() };
  keepExchange({ method, target: path, headers, body, answer });
  expectDocumented(method, path, answer);
  return { ...answer, code: answer.status >= 400 ? JSON.parse(answer.text).code : undefined };
}

const bodyOf = ({ name, categoryId, status }: NewPet) =>
  `{"name":${JSON.stringify(name)},"categoryId":${categoryId}${status ? `,"status":"${status}"` : ''}}`;

/** Adds to the model the pet that the server must have added. */
function addToModel({ pets }: Model, { name, categoryId, status = 'available' }: NewPet): { id: number; json: string } {
  const id = pets.length + 1;
  const json = `{"id":${id},"name":${JSON.stringify(name)},"categoryId":${categoryId},"status":"${status}"}`;
  pets.push({ json, status });
  return { id, json };
}

interface Query {
  limit: number;
  status?: string | undefined;
  /** Number of pets before the cursor; 0: no cursor. */
  after: number;
}

function pathOf({ limit, status, after }: Query): string {
  const cursor = after > 0 ? `&cursor=${Buffer.from(`after:${after}`).toString('base64url')}` : '';
  return `/v1/pets?limit=${limit}${status ? `&status=${status}` : ''}${cursor}`;
}

function pageOf({ pets }: Model, { limit, status, after }: Query): { text: string; more: boolean } {
  const left = pets.slice(after).filter((pet) => status === undefined || pet.status === status);
  return { text: `[${left.slice(0, limit).map(({ json }) => json)}]`, more: left.length > limit };
}

const nextOf = ({ headers }: Result) => /<([^>]+)>; rel="next"/.exec(String(headers.link))?.[1];

/** Ends the process and starts another one in the same folder. */
async function restart(real: Real, signal: 'SIGTERM' | 'SIGKILL'): Promise<void> {
  const { code } = await real.server.end(signal);
  expect(code).toBe(signal === 'SIGTERM' ? 0 : null);
  real.server = await startServer({ folder: real.server.folder });
}

const newPet: fc.Arbitrary<NewPet> = fc.record(
  {
    name: fc.string({ unit: 'grapheme', minLength: 1, maxLength: 20 }).filter((name) => !name.includes('\0')),
    categoryId: fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
    status: fc.constantFrom('available', 'pending', 'sold'),
  },
  { requiredKeys: ['name', 'categoryId'] },
);
const status = fc.option(fc.constantFrom('available', 'pending', 'sold'), { nil: undefined });

const add = newPet.map((pet) =>
  command(`add ${bodyOf(pet)}`, async (model, real) => {
    const answer = await ask(real, 'POST', '/v1/pets', bodyOf(pet));
    const { id, json } = addToModel(model, pet);
    expect(answer).toMatchObject({ status: 201, text: json, headers: { location: `/v1/pets/${id}` } });
    expect(answer.headers).not.toHaveProperty('idempotent-replayed');
  }),
);

const addSeveral = fc.array(newPet, { minLength: 2, maxLength: 12 }).map((pets) =>
  command(`add ${pets.length} at once`, async (model, real) => {
    const answers = await Promise.all(pets.map((pet) => ask(real, 'POST', '/v1/pets', bodyOf(pet))));
    const given = answers.map(({ text }, index) => ({ text, pet: pets[index] as NewPet, id: JSON.parse(text).id }));
    for (const { text, pet } of given.sort((a, b) => a.id - b.id)) expect(text).toBe(addToModel(model, pet).json);
  }),
);

const addOnce = fc.tuple(fc.constantFrom('a', 'b', 'c'), newPet, fc.boolean()).map(([retryKey, fresh, same]) =>
  command(`add with Idempotency-Key ${retryKey}${same ? ', repeated' : ''} ${bodyOf(fresh)}`, async (model, real) => {
    const known = model.retries.get(retryKey);
    const requestBody = same && known ? known.requestBody : bodyOf(fresh);
    const answer = await ask(real, 'POST', '/v1/pets', requestBody, { 'idempotency-key': retryKey });
    if (known === undefined) {
      const { id, json } = addToModel(model, fresh);
      model.retries.set(retryKey, { requestBody, id });
      expect(answer).toMatchObject({ status: 201, text: json });
    } else if (known.requestBody === requestBody) {
      const { json } = model.pets[known.id - 1] as Model['pets'][0];
      expect(answer).toMatchObject({ status: 201, text: json, headers: { 'idempotent-replayed': 'true' } });
    } else expect(answer).toMatchObject({ status: 422, code: 'idempotency_key_reused' });
  }),
);

const list = fc.tuple(fc.integer({ min: 1, max: 100 }), status, fc.nat(1000)).map(([limit, wanted, position]) =>
  command(`list ${limit} ${wanted} from ${position}`, async (model, real) => {
    const query = { limit, status: wanted, after: position % (model.pets.length + 1) };
    const answer = await ask(real, 'GET', pathOf(query));
    const { text, more } = pageOf(model, query);
    expect(answer).toMatchObject({ status: 200, text });
    expect(nextOf(answer) !== undefined).toBe(more);
  }),
);

const walk = fc.tuple(fc.integer({ min: 1, max: 9 }), status).map(([limit, wanted]) =>
  command(`walk by ${limit} ${wanted}`, async (model, real) => {
    const pages: string[] = [];
    for (let next: string | undefined = pathOf({ limit, status: wanted, after: 0 }); next; ) {
      const answer = await ask(real, 'GET', next);
      pages.push(answer.text.slice(1, -1));
      next = nextOf(answer);
    }
    const { text } = pageOf(model, { limit: Infinity, status: wanted, after: 0 });
    expect(`[${pages.join()}]`).toBe(text);
  }),
);

const get = fc.nat(1000).map((position) =>
  command(`get ${position}`, async ({ pets }, real) => {
    const id = 1 + (position % (pets.length + 2));
    const answer = await ask(real, 'GET', `/v1/pets/${id}`);
    const pet = pets[id - 1];
    expect(answer).toMatchObject(pet ? { status: 200, text: pet.json } : { status: 404, code: 'pet_not_found' });
  }),
);

/** GET with the last ETag: 304 if and only if the page is unchanged in the model. */
const revalidate = fc.tuple(fc.constantFrom(1, 3, 100), status).map(([limit, wanted]) =>
  command(`revalidate ${limit} ${wanted}`, async (model, real) => {
    const path = pathOf({ limit, status: wanted, after: 0 });
    const { text, more } = pageOf(model, { limit, status: wanted, after: 0 });
    const known = model.seen.get(path);
    const answer = await ask(real, 'GET', path, undefined, known && { 'if-none-match': known.etag });
    if (known?.text === text) expect(answer).toMatchObject({ status: 304, text: '', headers: { etag: known.etag } });
    else expect(answer).toMatchObject({ status: 200, text });
    expect(nextOf(answer) !== undefined).toBe(more);
    model.seen.set(path, { text, etag: String(answer.headers.etag) });
  }),
);

const badRequests: [method: string, path: string, body: string | undefined, status: number, code: string][] = [
  ['GET', '/v1/pets?limit=0', undefined, 400, 'invalid_parameter'],
  ['GET', '/v1/pets?limit=101', undefined, 400, 'invalid_parameter'],
  ['GET', '/v1/pets?status=lost', undefined, 400, 'invalid_parameter'],
  ['GET', '/v1/pets?cursor=YWZ0ZXI6MA', undefined, 400, 'invalid_cursor'],
  ['GET', '/v1/pets/9223372036854775808', undefined, 400, 'invalid_parameter'],
  ['POST', '/v1/pets', '{"name":"","categoryId":1}', 400, 'invalid_body'],
  ['POST', '/v1/pets', '{"name":"x"}', 400, 'invalid_body'],
  ['POST', '/v1/pets', '{"name":"x","categoryId":1', 400, 'invalid_json'],
  ['DELETE', '/v1/pets/1', undefined, 405, 'method_not_allowed'],
  ['GET', '/v1/store/orders', undefined, 501, 'not_implemented'],
];

const bad = fc.constantFrom(...badRequests).map(([method, path, body, expected, code]) =>
  command(`${method} ${path} ${body ?? ''}`, async (_model, real) => {
    expect(await ask(real, method, path, body)).toMatchObject({ status: expected, code });
  }),
);

const end = fc
  .constantFrom('SIGTERM', 'SIGKILL')
  .map((signal) => command(signal, (_model, real) => restart(real, signal as 'SIGTERM')));

/** SIGKILL may lose the response to a POST. A retry gets the same response, and the pet is added once. */
const killWhileAdding = fc.tuple(newPet, fc.uuid(), fc.nat(6)).map(([pet, retryKey, afterMs]) =>
  command(`SIGKILL ${afterMs} ms after add with Idempotency-Key ${retryKey} ${bodyOf(pet)}`, async (model, real) => {
    const send = () => ask(real, 'POST', '/v1/pets', bodyOf(pet), { 'idempotency-key': retryKey });
    const first = send().catch(() => undefined);
    await sleep(afterMs);
    await restart(real, 'SIGKILL');
    const firstAnswer = await first;
    const { id, json } = addToModel(model, pet);
    model.retries.set(retryKey, { requestBody: bodyOf(pet), id });
    const again = await send();
    expect(again).toMatchObject({ status: 201, text: json });
    if (firstAnswer) expect([firstAnswer.text, again.headers['idempotent-replayed']]).toEqual([json, 'true']);
  }),
);

const times = <Kind>(count: number, kind: Kind): Kind[] => Array(count).fill(kind);

/** A mix of commands. Restarts are rare, because one takes as long as all other commands together. */
export const commands = fc.commands(
  [
    ...[...times(14, add), ...times(6, addSeveral), ...times(16, addOnce), ...times(12, list), ...times(4, walk)],
    ...[...times(6, get), ...times(10, revalidate), ...times(6, bad), ...times(3, end), ...times(2, killWhileAdding)],
  ],
  { maxCommands: 60, size: 'max' },
);
