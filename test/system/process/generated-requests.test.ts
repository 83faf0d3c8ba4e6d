/** Tests valid requests generated from the OpenAPI documents: each is accepted, and answered as documented. */
import fc from 'fast-check';
import { Pool } from 'undici';
import { expect, onTestFinished, test } from 'vitest';
import { sideBySide } from '../../support/client.ts';
import { expectDocumented } from '../../support/documented.ts';
import { walk } from '../../support/links.ts';
import { runCli, type Server, startServer } from '../../support/process.ts';
import { tier } from '../../support/tier.ts';
import { type Known, type Operation, readAllOperations, requestsOf, type Sent } from '../../support/valid-requests.ts';

const roundSize = 2500;
const connections = 16;

/** Expected statuses for a valid request. An operation without a documented success returns 501. */
function successesOf({ responses, parameters = [] }: Operation) {
  const good = Object.keys(responses)
    .map(Number)
    .filter((status) => status < 300 || status === 304);
  if (good.length === 0) return [501];
  // The pet that the path names may not exist.
  return parameters.some((parameter) => parameter.in === 'path') ? [...good, 404] : good;
}

/** Sends a request. Throws if the response is not one of a valid request, or not as documented. Resolves to whether it added a pet. */
async function send(pool: Pool, authorization: string, { operation, target, headers: given, body }: Sent) {
  const { method, methods, operationId } = operation;
  try {
    const headers = { authorization, ...given };
    const response = await pool.request({ method: method as 'GET', path: target, headers, body: body ?? null });
    const { statusCode: status } = response;
    const text = await response.body.text();
    expect(successesOf(operation), text).toContain(status);
    expectDocumented(method, target, { status, headers: response.headers, text });
    if (status === 204) expect(String(response.headers.allow).split(', ')).toEqual(expect.arrayContaining(methods));
    return status === 201 && /^\/v1\/pets\/\d+$/.test(String(response.headers.location));
  } catch (cause) {
    const quoted = JSON.stringify({ method, target, headers: given, body }).slice(0, 2000);
    throw new Error(`${operationId}: ${quoted}`, { cause });
  }
}

/** Idempotency-Keys that match the schema and were not used before; a used one would make the request a retry. */
function freshKeys(): fc.Arbitrary<string> {
  let used = 0;
  const own = () => (used++).toString(36);
  return fc.stringMatching(/^[!-~]{0,245}$/).map((text) => `${own()}.${text}`.slice(0, 255));
}

async function keyOf({ folder }: Server, account: string) {
  const args = ['key', 'create', '--account', account, '--name', 'k'];
  return /ast_test_\w+/.exec((await runCli(args, { folder })).stdout)?.[0] as string;
}

test('every request that the documents allow is accepted', async () => {
  const server = await startServer();
  const key = await server.firstKey();
  const petCount = 30;
  for (let index = 0; index < petCount; index++) await server.add({ name: `pet ${index}`, categoryId: index });
  const { ids, cursors } = await walk(server, key, 4);
  const known: Known = {
    cursor: fc.constantFrom(...cursors),
    petId: fc.oneof(fc.constantFrom(...ids), fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }).map(String)),
    'Idempotency-Key': freshKeys(),
    'If-None-Match': fc.constantFrom('*', '"x"', 'W/"x"', '"x", W/"y"', 'x', ''),
  };
  const kinds = readAllOperations().map((operation) => {
    const isMain = ['GET', 'POST'].includes(operation.method) && !successesOf(operation).includes(501);
    return { weight: isMain ? 5 : 1, arbitrary: requestsOf(operation, known) };
  });

  const seed = Number(process.env.SEED ?? Date.now() % 2 ** 31);
  const pool = new Pool(server.url, { connections, pipelining: 1, keepAliveTimeout: 60_000 });
  onTestFinished(() => pool.destroy());
  const rounds = tier(1, 40);
  let additions = 0;
  for (let round = 0; round < rounds; round++) {
    const account = `round ${round}`;
    await runCli(['account', 'add', account], { folder: server.folder });
    // An account can send 1,000 messages in 24 hours.
    const authorization = `Bearer ${await keyOf(server, account)}`;
    const queue = fc.sample(fc.oneof(...kinds), { numRuns: roundSize, seed: seed + round });
    await sideBySide(connections, async () => {
      for (let next = queue.pop(); next; next = queue.pop()) if (await send(pool, authorization, next)) additions += 1;
    }).catch((cause) => {
      throw new Error(`SEED=${seed} reproduces this`, { cause });
    });
  }
  expect((await walk(server, key, 100)).ids).toHaveLength(petCount + additions);
});
