/** Tests that secrets and words of clients (canaries) never appear in the log, the metrics or an error. */
import { randomBytes } from 'node:crypto';
import { mkdirSync } from 'node:fs';
import path from 'node:path';
import Database from 'better-sqlite3';
import { expect, test } from 'vitest';
import { newSecret, type Scope, scopes } from '../../../src/core/accounts.ts';
import { openStore } from '../../../src/store/open.ts';
import { temporaryFolder } from '../../support/app.ts';
import { names, placesOf } from '../../support/places.ts';
import { plant } from '../../support/plant.ts';
import { startServer } from '../../support/process.ts';
import { converse, type RawAnswer } from '../../support/raw.ts';
import { figure, patientMs } from '../../support/tier.ts';

/** A random word that can come only from the test. */
const canary = () => `canary${randomBytes(8).toString('hex')}`;

/** Creates a store with API keys of every kind, and one more for requests. The account and the keys have canaries as names. */
async function makeStore() {
  const folder = temporaryFolder();
  mkdirSync(path.join(folder, 'data'));
  const file = path.join(folder, 'data', 'animal-store.db');
  const store = await openStore(`sqlite:${file}`, { now: () => new Date() });
  const [account, name] = [canary(), canary()];
  await store.accounts.addAccount(account);
  async function addKey(granted: Scope[]) {
    const secret = newSecret(false);
    const added = await store.accounts.addKey({ account, name, scopes: granted, lifetimeMs: null, secret });
    return { id: added?.id as number, key: secret.key };
  }
  const revoked = await addKey([...scopes]);
  await store.accounts.revokeKey(revoked.id);
  const keys = {
    valid: (await addKey([...scopes])).key,
    'without the scope to write': (await addKey(['pets:read'])).key,
    revoked: revoked.key,
    unknown: newSecret(false).key,
    'of production': newSecret(true).key,
    malformed: `ast_test_${canary()}`,
  };
  const { key } = await addKey([...scopes]);
  await store.close();
  return { folder, file, keys, key, names: [account, name] };
}

/** Internals that no client may see: paths, stack traces, SQL, names of libraries. */
const internals =
  /\.[jt]s\b|\bat \S+ \(|\n|node_modules|\/tmp\/|sqlite|better-|fastify|FST_|ERR_|SELECT |INSERT |no such/i;

interface Exchange {
  place: string;
  word: string;
  answers: RawAnswer[];
}

/** Sends each word in each place, each on a new connection. The places of a word run in order, because some depend on earlier ones. */
async function sendAll(port: number, key: string, words: string[]): Promise<Exchange[]> {
  const exchanges: Exchange[] = [];
  for (const [place, write] of Object.entries(placesOf(key))) {
    const sent = words.map(async (word) => {
      const answers = await converse(port, [write(word)], { deadlineMs: 20_000 });
      exchanges.push({ place, word, answers });
    });
    await Promise.all(sent);
  }
  return exchanges;
}

const textOf = ({ headers, text }: RawAnswer) => `${JSON.stringify(headers)}${text}`;

/** Half of a key is a leak, too; a password may also leak in its base64 form. */
const formsOf = (word: string) => [word, word.slice(-12), Buffer.from(`user:${word}`).toString('base64')];

interface Findings {
  /** Canaries that leaked, by place. */
  hits: { log: string[]; metrics: string[]; errors: string[] };
  /** Error responses that reveal internals. */
  revealing: string[];
  figure: string;
}

/** Sends every canary in every place to a server, then searches its output for them. `source`: as for `startServer`. */
async function search(source?: string): Promise<Findings> {
  const { folder, file, keys, key, names: given } = await makeStore();
  const env = { LOG_LEVEL: 'trace' };
  const server = await startServer({ folder, env, ...(source && { source }) });
  const secrets = Object.values(keys);
  const exchanges = await sendAll(server.port, key, [...secrets, canary(), canary()]);
  // From here on, requests also fail with a 5xx, which must reveal no internals either.
  new Database(file).exec('ALTER TABLE pet RENAME TO other').close();
  const places = placesOf(key);
  for (const place of ['name', 'value of cursor', 'Idempotency-Key', 'Accept']) {
    const word = canary();
    exchanges.push({ place, word, answers: await converse(server.port, [places[place]?.(word) as string]) });
  }
  const metrics = await (await fetch(`${server.opsUrl()}/metrics`)).text();
  const { stdout, stderr } = await server.end('SIGTERM');
  const log = stdout + stderr;
  const lines = log.split('\n').length;
  expect(lines).toBeGreaterThan(exchanges.length);
  expect(metrics).toContain('http_request');

  const clients = [...new Set(exchanges.map(({ word }) => word)), key];
  const allWords = [...clients, ...given];
  const within = (text: string, words: string[]) =>
    words.filter((word) => formsOf(word).some((form) => text.includes(form)));
  const errors = exchanges.flatMap(({ place, word, answers }) =>
    answers.filter(({ status }) => status >= 400).map((answer) => ({ place, word, answer, text: textOf(answer) })),
  );
  expect(errors.filter(({ answer }) => answer.status >= 500).length).toBeGreaterThan(2);
  const neverRepeated = [...secrets, key, ...given];
  return {
    hits: {
      // A path without a route is logged, but no API key in it.
      log: [...within(log.replaceAll(/"path":"[^"]*"/g, ''), allWords), ...within(log, [...secrets, key])],
      // The metrics count requests per account and key name, which the operator chose.
      metrics: within(metrics, clients),
      errors: errors.flatMap(({ place, word, text }) =>
        within(text, names.includes(place) ? neverRepeated : [...neverRepeated, word]).map((hit) => `${place}: ${hit}`),
      ),
    },
    revealing: errors.map(({ text }) => text).filter((text) => internals.test(text) || text.includes(folder)),
    figure: `${allWords.length} canaries in ${Object.keys(places).length} places: 0 hits in ${lines} lines of the log at level trace, ${errors.length} errors and the metrics`,
  };
}

test(
  'no API key and no word of a client appears in the log, the metrics or an error, except that an error repeats names made up by the client',
  async () => {
    const found = await search();
    expect(found.hits).toEqual({ log: [], metrics: [], errors: [] });
    expect(found.revealing).toEqual([]);
    figure(found.figure);
  },
  patientMs,
);

test(
  'a planted leak is found in the log, the metrics and the errors',
  async () => {
    const from = '  const { id, routeHeaders, ownHeaders } = reply.request;';
    const leaky = plant(
      'src/http/responses.ts',
      from,
      `  const leaked = String(reply.request.headers.authorization);
  reply.request.record.route = leaked;
  if (status >= 400) body = leaked.padEnd(body.length).slice(0, body.length);
${from}`,
    );
    const { hits } = await search(leaky);
    const found = Object.entries(hits).map(([where, words]) => `${where} ${words.length > 0}`);
    expect(found).toEqual(['log true', 'metrics true', 'errors true']);
  },
  patientMs,
);
