/** Tests requests generated from the OpenAPI documents: valid ones are accepted, all others are refused as documented. */
import fc from 'fast-check';
import { Pool } from 'undici';
import { expect, onTestFinished, test } from 'vitest';
import { type Rule, rulesOf } from '../../support/broken-requests.ts';
import { sideBySide } from '../../support/client.ts';
import { expectDocumented } from '../../support/documented.ts';
import { walk } from '../../support/links.ts';
import { runCli, type Server, startServer } from '../../support/process.ts';
import { figure, tier } from '../../support/tier.ts';
import {
  type Draft,
  draftsOf,
  type Known,
  type Operation,
  readAllOperations,
  written,
} from '../../support/valid-requests.ts';

const roundSize = 5000;
const connections = 16;

interface Sent {
  name: string;
  statuses: number[];
  draft: Draft;
}

/** Expected statuses for a valid request. An operation without a documented success returns 501. */
function successesOf({ statuses, parameters }: Operation): number[] {
  const good = statuses.filter((status) => status < 300 || status === 304);
  if (good.length === 0) return [501];
  // The pet that the path names may not exist.
  return parameters.some((parameter) => parameter.in === 'path') ? [...good, 404] : good;
}

/** The valid requests of an operation, and those that break a rule. The weights are such that about half of all are valid. */
function kindsOf(operation: Operation, known: Known, rules: Rule[]): fc.WeightedArbitrary<Sent>[] {
  const { operationId: name, method } = operation;
  const statuses = successesOf(operation);
  const isMain = ['GET', 'POST'].includes(method) && !statuses.includes(501);
  const valid = draftsOf(operation, known).map((draft) => ({ name, statuses, draft }));
  return [
    { weight: isMain ? 20 : 4, arbitrary: valid },
    ...rules.map(({ name, status, drafts }) => ({
      weight: 1,
      arbitrary: drafts.map((draft) => ({ name, statuses: [status], draft })),
    })),
  ];
}

/** Sends a request. Throws if the response is not one that the kind expects, or not as documented. Resolves to its status and whether it added a pet. */
async function send(pool: Pool, own: Readonly<Record<string, string>>, { name, statuses, draft }: Sent) {
  const { method, target, headers: given, body } = written(draft);
  try {
    const all: typeof given = { ...own, ...given };
    const response = await pool.request({
      method: method as 'GET',
      path: target,
      headers: Object.fromEntries(Object.entries(all).filter(([, value]) => value === '' || value.length > 0)),
      body: body ?? null,
    });
    const { statusCode: status, headers } = response;
    const text = await response.body.text();
    if (!statuses.includes(status)) throw new Error(`${status}, not ${statuses}: ${text}`);
    expectDocumented(method, target, { status, headers, text });
    if (status === 405 || status === 204)
      expect(String(headers.allow).split(', ')).toEqual(
        expect.arrayContaining([...draft.operation.methods, 'OPTIONS']),
      );
    return { status, added: status === 201 && /^\/v1\/pets\/\d+$/.test(String(headers.location)) };
  } catch (cause) {
    const quoted = JSON.stringify({ method, target, headers: given, body: String(body) }).slice(0, 2000);
    throw new Error(`${name}: ${quoted}`, { cause });
  }
}

/** Idempotency-Keys that match the schema and were not used before; a used one would make the request a retry. */
function freshKeys(): fc.Arbitrary<string> {
  let used = 0;
  const own = () => (used++).toString(36);
  return fc.stringMatching(/^[!-~]{0,245}$/).map((text) => `${own()}.${text}`.slice(0, 255));
}

async function keyWith({ folder }: Server, scopes: string, account = 'first'): Promise<string> {
  const args = ['key', 'create', '--account', account, '--name', scopes, '--scopes', scopes];
  return /ast_test_\w+/.exec((await runCli(args, { folder })).stdout)?.[0] as string;
}

test('every request that the documents allow is accepted, and every request that breaks a rule is refused', async () => {
  const server = await startServer({ env: { TRUST_PROXY: '127.0.0.1' } });
  const key = await server.firstKey();
  const petCount = 30;
  for (let index = 0; index < petCount; index++) await server.add({ name: `pet ${index}`, categoryId: index });
  const [reader, writer] = [await keyWith(server, 'pets:read'), await keyWith(server, 'pets:write')];
  const { ids, cursors } = await walk(server, key, 4);
  const known: Known = {
    cursor: fc.constantFrom(...cursors),
    petId: fc.oneof(fc.constantFrom(...ids), fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }).map(String)),
    'Idempotency-Key': freshKeys(),
    'If-None-Match': fc.constantFrom('*', '"x"', 'W/"x"', '"x", W/"y"', 'x', ''),
  };
  const kinds = readAllOperations().flatMap((operation) => {
    const scopeless = operation.scope === 'pets:write' ? reader : writer;
    // OPTIONS ignores the query; the other rules are those of the operations of its path.
    const rules = operation.method === 'OPTIONS' ? [] : rulesOf(operation, known, scopeless);
    return kindsOf(operation, known, rules);
  });

  const seed = Number(process.env.SEED ?? Date.now() % 2 ** 31);
  const pool = new Pool(server.url, { connections, pipelining: 1, keepAliveTimeout: 60_000 });
  onTestFinished(() => pool.destroy());
  const counts: Record<number, number> = {};
  const rounds = tier(1, 40);
  let additions = 0;
  for (let round = 0; round < rounds; round++) {
    const account = `round ${round}`;
    await runCli(['account', 'add', account], { folder: server.folder });
    // An account can send 1,000 messages in 24 hours, and a network 600 rejected keys in a minute.
    const authorization = `Bearer ${await keyWith(server, 'pets:read,pets:write', account)}`;
    const own = { authorization, 'x-forwarded-for': `10.0.0.${round}` };
    const queue = fc.sample(fc.oneof(...kinds), { numRuns: roundSize, seed: seed + round });
    await sideBySide(connections, async () => {
      for (let next = queue.pop(); next; next = queue.pop()) {
        const { status, added } = await send(pool, own, next);
        counts[status] = (counts[status] ?? 0) + 1;
        if (added) additions += 1;
      }
    }).catch((cause) => {
      throw new Error(`SEED=${seed} reproduces this`, { cause });
    });
  }
  // Refused requests have changed nothing.
  expect((await walk(server, key, 100)).ids).toHaveLength(petCount + additions);
  figure(`${rounds * roundSize} requests of ${kinds.length} kinds, by status`, counts);
});
