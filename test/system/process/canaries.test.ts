/** Tests that secrets and words of clients (canaries) never appear in the log, the metrics or an error. */
import { randomBytes } from 'node:crypto';
import Database from 'better-sqlite3';
import { expect, test } from 'vitest';
import { newSecret, type Scope, scopes } from '../../../src/core/accounts.ts';
import { startServer } from '../../support/process.ts';
import { converse, type RawAnswer } from '../../support/raw.ts';
import { makeStore } from '../../support/store-file.ts';
import { names, placesOf } from './places.ts';

/** A random word that can come only from the test. */
const canary = () => `canary${randomBytes(8).toString('hex')}`;

/** Creates a store with API keys of every kind in an account; the account and the keys have canaries as names. */
async function makeKeys() {
  const given = [canary(), canary()] as const;
  const secrets = [newSecret(false).key, newSecret(true).key, `ast_test_${canary()}`];
  const made = await makeStore(undefined, async ({ accounts }) => {
    const [account, name] = given;
    await accounts.addAccount(account);
    const granted: Scope[][] = [[...scopes], [...scopes], ['pets:read']];
    for (const [index, scopes] of granted.entries()) {
      const secret = newSecret(false);
      const added = await accounts.addKey({ account, name, scopes, lifetimeMs: null, secret });
      if (index === 0) await accounts.revokeKey(added?.id as number);
      secrets.push(secret.key);
    }
  });
  return { ...made, given, secrets };
}

/** Internals that no client may see: paths, stack traces, SQL, names of libraries. */
const internals =
  /\.[jt]s\b|\bat \S+ \(|\n|node_modules|\/tmp\/|sqlite|better-|fastify|FST_|ERR_|SELECT |INSERT |no such/i;

const textOf = ({ headers, text }: RawAnswer) => `${JSON.stringify(headers)}${text}`;

/** Half of a key is a leak, too; a password may also leak in its base64 form. */
const formsOf = (word: string) => [word, word.slice(-12), Buffer.from(`user:${word}`).toString('base64')];
const within = (text: string, words: readonly string[]) =>
  words.filter((word) => formsOf(word).some((form) => text.includes(form)));

test('no API key and no word of a client appears in the log, the metrics or an error, but for made-up names', async () => {
  const { folder, file, env, key, given, secrets } = await makeKeys();
  const server = await startServer({ env: { ...env, LOG_LEVEL: 'trace' } });
  const words = [...secrets, canary(), canary()];
  const places = Object.entries(placesOf(key));
  const exchanges: { place: string; word: string; answers: RawAnswer[] }[] = [];
  const send = async ([place, write]: (typeof places)[0], word: string) =>
    exchanges.push({ place, word, answers: await converse(server.port, [write(word)], { deadlineMs: 20_000 }) });
  // The places of a word run in order, because some depend on earlier ones.
  for (const place of places) await Promise.all(words.map((word) => send(place, word)));
  // From here on, requests also fail with a 5xx, which must reveal no internals either.
  new Database(file).exec('ALTER TABLE pet RENAME TO other').close();
  for (const place of places)
    if (['name', 'value of cursor', 'Idempotency-Key', 'Accept'].includes(place[0])) await send(place, canary());
  const metrics = await server.metrics();
  const { stdout, stderr } = await server.end('SIGTERM');
  const log = stdout + stderr;
  expect(log.split('\n').length).toBeGreaterThan(exchanges.length);
  expect(metrics).toContain('http_request');

  const clients = [...new Set(exchanges.map(({ word }) => word)), key];
  const errors = exchanges.flatMap(({ place, word, answers }) =>
    answers.filter(({ status }) => status >= 400).map((answer) => ({ ...answer, place, word, all: textOf(answer) })),
  );
  expect(errors.filter(({ status }) => status >= 500).length).toBeGreaterThan(2);
  const neverRepeated = [...secrets, key, ...given];
  expect({
    // A path without a route is logged, but no API key in it.
    log: [...within(log.replaceAll(/"path":"[^"]*"/g, ''), [...clients, ...given]), ...within(log, [...secrets, key])],
    // The metrics count requests per account and key name, which the operator chose.
    metrics: within(metrics, clients),
    errors: errors.flatMap(({ place, word, all }) =>
      within(all, names.includes(place) ? neverRepeated : [...neverRepeated, word]).map((hit) => `${place}: ${hit}`),
    ),
    revealing: errors.map(({ all }) => all).filter((all) => internals.test(all) || all.includes(folder)),
  }).toEqual({ log: [], metrics: [], errors: [], revealing: [] });
});
