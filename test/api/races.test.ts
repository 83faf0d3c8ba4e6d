/**
 * Races each command with itself and with every other one, on two servers, and checks what must hold in whatever order they ran. Its words:
 *
 * - A pair is two commands. Each pair has a world of its own: an account, with keys, sessions and two links (`worldOf`, `setUp`).
 * - Of each command of a pair four copies run at once, two on each server. Even copies act for the operator, odd ones for the person (`races.input`).
 * - Each copy has effects: how often it did what it is for, 1 or 0 (`races.effects`). It rejects in no case.
 * - After all pairs, the rows of each world are read (`queries`), and the rules compare them with the effects (`faultsOf`): so many keys as were made.
 *
 * A new command needs a line in `races`, and a rule of what it must never do twice, or half.
 */
import { createHash } from 'node:crypto';
import { expect, onTestFinished, test } from 'vitest';
import { dayMs, limits, minuteMs } from '../../src/core/limits.ts';
import { type CommandName, commands, type Input, type Outcome } from '../../src/store/commands.ts';
import type { Engine } from '../../src/store/engine.ts';
import { sqliteFile } from '../../src/store/open.ts';
import { createEngine } from '../../src/store/postgres/postgres.ts';
import { startWriter } from '../../src/store/sqlite/writer.ts';
import { emptyStore, engine, open, openPools, runSql, textRows } from '../support/store.ts';

const at = Date.UTC(2027, 0, 1);
const oldHash = 'old';
const maxMessages = 3;

/** Copies of each of the two commands that run at once. */
const copies = 4;
const endedKeys = 5;

const hashOf = (text: string) => createHash('sha256').update(text).digest();

const firstId = 1_000_000;

/** An account of its own for each pair of commands: one place is left for a key and for a session. */
function worldOf(index: number) {
  const id = firstId + index;
  const hash = (what: string) => hashOf(`${what} of ${id}`);
  return {
    id,
    name: `ada ${id}`,
    /** The id of an active key; the next ids are those of the other keys. */
    key: 100 * id,
    session: hash('session'),
    reset: hash('reset'),
    invitation: hash('invitation'),
  };
}
type World = ReturnType<typeof worldOf>;

/** Even copies act for the operator, odd ones for the person. */
const ownerOf = ({ name, session }: World, copy: number) => ({ owner: copy % 2 === 0 ? name : { session } });
const askerOf = ({ session }: World, copy: number) => (copy % 2 === 0 ? {} : { session });
const newKey = { name: 'till', scopes: 'pets:read', lifetimeMs: null };
const secretOf = ({ id }: World, copy: number) => ({ hint: 'ast_test_0000', hash: hashOf(`key ${copy} of ${id}`) });

type Races = {
  [Name in CommandName]: {
    /** Copies with even and with odd numbers may act for different people. */
    input: (world: World, copy: number) => Input<Name>;
    /** How often it did what it is for; 0: it changed nothing. */
    effects: (outcome: Outcome<Name>) => number;
  };
};

const countOf = (isDone: boolean) => (isDone ? 1 : 0);
const rowsOf = (outcome: object | string | undefined) => countOf(typeof outcome === 'object');
const once = () => 1;

const races: Races = {
  addAccount: { input: ({ id }) => ({ name: `new ${id}`, at }), effects: rowsOf },
  removeAccount: {
    input: (world, copy) => ({ ...ownerOf(world, copy), passwordHash: copy % 2 === 0 ? undefined : oldHash, at }),
    effects: rowsOf,
  },
  addKey: {
    input: (world, copy) => ({ ...ownerOf(world, copy), ...secretOf(world, copy), ...newKey, at }),
    effects: rowsOf,
  },
  changeKey: {
    input: (world, copy) => {
      const changed = { name: 'cart', scopes: 'pets:read', expiresAt: null };
      return { id: world.key, ...askerOf(world, copy), ...changed, at };
    },
    effects: rowsOf,
  },
  revokeKey: { input: (world, copy) => ({ id: world.key, ...askerOf(world, copy), at }), effects: rowsOf },
  rotateKey: {
    input: (world, copy) => {
      const rotation = { id: world.key, oldExpiresAt: at + minuteMs, at };
      return { ...rotation, ...askerOf(world, copy), ...secretOf(world, copy) };
    },
    effects: rowsOf,
  },
  recordUses: {
    input: ({ key }, copy) => {
      const counts = { succeeded: 1, clientErrors: 0, rateLimited: 0, serverErrors: 0, deprecatedCalls: 1 };
      const uses = [key, key + 1].map((id) => ({ id, lastUsedAt: at, ...counts, errors: [] }));
      return { uses: copy % 2 === 0 ? uses : uses.toReversed(), at };
    },
    effects: once,
  },
  signUp: {
    // The link can be used for one account, whatever its name is.
    input: ({ id, invitation }, copy) => ({
      ...(copy % 2 === 0 ? { name: `new ${id}` } : { name: `invited ${id} ${copy}`, link: invitation }),
      passwordHash: oldHash,
      at,
    }),
    effects: rowsOf,
  },
  setPassword: {
    input: ({ id, session, reset }, copy) => ({
      accountId: id,
      passwordHash: `new ${copy}`,
      at,
      ...(copy % 2 === 0 ? { link: reset } : { session, previous: oldHash }),
    }),
    effects: countOf,
  },
  addLink: {
    input: ({ id }, copy) => ({ hash: hashOf(`link ${copy} of ${id}`), purpose: 'reset', accountId: id, at }),
    effects: once,
  },
  addSession: {
    input: ({ id }, copy) => {
      return { hash: hashOf(`session ${copy} of ${id}`), accountId: id, passwordHash: oldHash, at };
    },
    effects: countOf,
  },
  touchSession: { input: ({ session }) => ({ hash: session, at }), effects: once },
  endSession: { input: ({ session }) => ({ hash: session, at }), effects: once },
  endSessions: { input: ({ session }) => ({ session, at }), effects: countOf },
  addMessage: {
    input: ({ id, key }, copy) => ({
      id: `msg_${id}_${copy}`,
      accountId: id,
      keyId: key,
      message: 'Hello',
      status: 'queued',
      createdAt: new Date(at).toISOString(),
      maxMessages,
    }),
    effects: (refusal) => countOf(refusal === undefined),
  },
};

const names = Object.keys(commands) as CommandName[];
const pairs = names.flatMap((one, index) =>
  names.slice(index).map((other): [CommandName, CommandName] => [one, other]),
);

/** The engine of a server. Rejections reach the caller as they are. */
async function openEngine(databaseUrl: string): Promise<Writer> {
  if (databaseUrl.startsWith('sqlite:')) {
    const writer = startWriter(sqliteFile(databaseUrl), {});
    onTestFinished(() => writer.close());
    return writer;
  }
  // Commands of strangers use a quarter of the connections.
  const pools = await openPools(databaseUrl, { connections: 4 * copies });
  // Opens all connections before the races.
  const opening = [pools.keyed, pools.strangers].flatMap((pool) =>
    Array.from(Array(pool.measure().limit), () => pool.read((sql) => sql`SELECT pg_sleep(0.2)`)),
  );
  await Promise.all(opening);
  return createEngine(pools);
}

/** 49 active keys and 5 that have expired, 49 sessions and two links. */
function setUp(worlds: World[]): string {
  const [random, blob] =
    engine === 'SQLite'
      ? ['randomblob(32)', (bytes: Buffer) => `x'${bytes.toString('hex')}'`]
      : ['sha256(gen_random_uuid()::text::bytea)', (bytes: Buffer) => `'\\x${bytes.toString('hex')}'::bytea`];
  const values = (rowOf: (world: World) => string) => worlds.map((world) => `(${rowOf(world)})`).join();
  const series = (count: number) =>
    `(WITH RECURSIVE series (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM series WHERE n + 1 < ${count}) SELECT n FROM series) AS n`;
  const before = at - 2 * dayMs;
  const session = 'INSERT INTO session (hash, account_id, created_at, used_at)';
  const link = 'INSERT INTO one_time_link (hash, purpose, account_id, expires_at) VALUES';
  return [
    `INSERT INTO account (id, name, created_at, password_hash) VALUES ${values(({ id, name }) => `${id}, '${name}', ${before}, '${oldHash}'`)}`,
    `INSERT INTO api_key (id, account_id, name, hint, hash, scopes, created_at, expires_at)
     SELECT 100 * id + n, id, 'till', 'ast_test_0000', ${random}, 'pets:read', ${before}, CASE WHEN n < ${limits.activeKeys - 1} THEN NULL ELSE ${at} END
     FROM account CROSS JOIN ${series(limits.activeKeys - 1 + endedKeys)}`,
    `${session} SELECT ${random}, id, ${at - 2}, ${at - 2} FROM account CROSS JOIN ${series(limits.sessions - 2)}`,
    `${session} VALUES ${values(({ id, session: hash }) => `${blob(hash)}, ${id}, ${at - 1}, ${at - 1}`)}`,
    `${link} ${values(({ id, reset }) => `${blob(reset)}, 'reset', ${id}, ${at + minuteMs}`)}`,
    `${link} ${values(({ invitation }) => `${blob(invitation)}, 'invitation', NULL, ${at + minuteMs}`)}`,
  ].join(';');
}

type Writer = Pick<Engine, 'write'>;

async function run<Name extends CommandName>({ write }: Writer, name: Name, world: World, copy: number) {
  const { input, effects } = races[name];
  return { name, copy, effects: effects(await write(name, input(world, copy))) };
}
type Effect = Awaited<ReturnType<typeof run>>;

type Row = Record<string, string | null>;

/** Table → the columns that name the account of a row, as `place`, and those that the rules read. */
const queries = {
  account: 'id AS place, password_hash FROM account',
  // The accounts that several commands want to add.
  new: "replace(name, 'new ', '') AS place FROM account",
  api_key: 'account_id AS place, id, name, expires_at, revoked_at, deprecated_calls FROM api_key',
  api_key_usage: 'account_id AS place, key_id AS id, succeeded FROM api_key_usage JOIN api_key ON api_key.id = key_id',
  rotated_key: 'account_id AS place FROM rotated_key JOIN api_key ON id = key_id',
  session: `account_id AS place, ${engine === 'SQLite' ? 'lower(hex(hash))' : "encode(hash, 'hex')"} AS hash FROM session`,
  one_time_link: 'account_id AS place FROM one_time_link',
  message: 'account_id AS place FROM message',
};
type Table = keyof typeof queries;

/** The rows of each world. */
async function readTables(databaseUrl: string): Promise<(table: Table, world: World) => Row[]> {
  const tables = Object.entries(queries).map(async ([table, columns]) => {
    const rows = await textRows(databaseUrl, `SELECT ${columns}`);
    return [table, Map.groupBy(rows, ({ place }) => place)] as const;
  });
  const found = new Map(await Promise.all(tables));
  return (table, { id }) => found.get(table)?.get(String(id)) ?? [];
}

/** The rules that are broken. */
function faultsOf(world: World, done: Effect[], rowsOf: (table: Table) => Row[]): string[] {
  const effectsOf = (name: CommandName, isCounted = (_copy: number) => true) => {
    const counted = done.filter((effect) => effect.name === name && isCounted(effect.copy));
    return counted.reduce((sum, { effects }) => sum + effects, 0);
  };
  const ran = (name: CommandName) => done.some((effect) => effect.name === name);
  const isInvited = (copy: number) => copy % 2 === 1;

  const [account] = rowsOf('account');
  const [keys, sessions] = [rowsOf('api_key'), rowsOf('session')];
  const raced = keys.find(({ id }) => Number(id) === world.key);
  const used = rowsOf('api_key_usage').find(({ id }) => Number(id) === world.key);
  const active = keys.filter((key) => key.revoked_at === null && Number(key.expires_at ?? Infinity) > at).length;
  const madeKeys = effectsOf('addKey') + effectsOf('rotateKey') - Math.min(effectsOf('revokeKey'), 1);

  const rules = {
    'only a removal removes an account': effectsOf('removeAccount') === (account ? 0 : 1),
    'nothing of a removed account stays': account || [...keys, ...sessions, ...rowsOf('one_time_link')].length === 0,
    'an account has its most active keys': active <= limits.activeKeys,
    'only keys that were asked for are active': !account || active === limits.activeKeys - 1 + madeKeys,
    'a key is rotated once': effectsOf('rotateKey') <= 1,
    'a rotated key has one successor': !account || rowsOf('rotated_key').length === effectsOf('rotateKey'),
    'a change of a key is stored': !raced || (raced.name === 'cart') === effectsOf('changeKey') > 0,
    'a revoked key has ended': effectsOf('revokeKey') === 0 || !raced || raced.revoked_at !== null,
    'each use of a key is counted': !raced || Number(raced.deprecated_calls) === effectsOf('recordUses'),
    'each use of a key is counted on its day': !raced || Number(used?.succeeded ?? 0) === effectsOf('recordUses'),
    'an account has its most sessions': sessions.length <= limits.sessions,
    'a session ends all sessions once': effectsOf('endSessions') <= 1,
    'an ended session stays ended':
      effectsOf('endSession') + effectsOf('endSessions') === 0 ||
      !sessions.some(({ hash }) => hash === world.session.toString('hex')),
    'a link or a password sets a password once': effectsOf('setPassword') <= 1,
    'a new password is stored': !account || (account.password_hash === oldHash) === (effectsOf('setPassword') === 0),
    'a new password ends all sessions': effectsOf('setPassword') === 0 || sessions.length === 0,
    'an invitation is used once': effectsOf('signUp', isInvited) === (ran('signUp') ? 1 : 0),
    'a name is taken once':
      effectsOf('addAccount') + effectsOf('signUp', (copy) => !isInvited(copy)) === rowsOf('new').length,
    // PostgreSQL may add a few more: see addMessage.
    'an account has its most messages': engine === 'PostgreSQL' || rowsOf('message').length <= maxMessages,
    'a message is added once': rowsOf('message').length === effectsOf('addMessage'),
  };
  return Object.entries(rules).flatMap(([rule, holds]) => (holds ? [] : rule));
}

test('any two commands at once leave the store as if one had come after the other', async () => {
  const databaseUrl = await emptyStore();
  await (await open(databaseUrl)).close();
  const pairsOf = pairs.map((pair, index) => ({ pair, world: worldOf(index) }));
  await runSql(databaseUrl, setUp(pairsOf.map(({ world }) => world)));
  const servers = [await openEngine(databaseUrl), await openEngine(databaseUrl)] as const;

  const faults: string[] = [];
  const raced: { world: World; pair: string; done: Effect[] }[] = [];
  for (const { pair, world } of pairsOf) {
    const [one, other] = pair;
    const name = `${one} × ${other}`;
    const running = Array.from(Array(copies), (_, copy) => {
      const server = servers[copy < copies / 2 ? 0 : 1];
      return [run(server, one, world, copy), run(server, other, world, one === other ? copies + copy : copy)];
    });
    const ended = await Promise.allSettled(running.flat());
    raced.push({ world, pair: name, done: ended.flatMap((each) => (each.status === 'fulfilled' ? each.value : [])) });
    for (const each of ended)
      if (each.status === 'rejected') faults.push(`${name}: ${each.reason.cause ?? each.reason}`);
  }
  const rowsOf = await readTables(databaseUrl);
  for (const { world, pair, done } of raced)
    faults.push(...faultsOf(world, done, (table) => rowsOf(table, world)).map((rule) => `${pair}: ${rule}`));
  expect(faults).toEqual([]);
});
