/** Tests of the copy of an SQLite store into PostgreSQL: all of it arrives, or nothing. */
import { describe, expect, test, vi } from 'vitest';
import { copyIntoPostgres } from '../../../src/store/copy.ts';
import { change, commandErrorOf } from '../../support/commands.ts';
import { runCli } from '../../support/process.ts';
import { startProxy } from '../../support/proxy.ts';
import { clientOf, newStore, open, temporaryFolder, textRows, waitingForLocks } from '../../support/store.ts';

const now = () => new Date();

/** Tables of each engine alone, those whose rows do not live long, and those which this release does not use. */
const notCopied = [
  'migration',
  'pet_revision',
  'sqlite_sequence',
  'session',
  'one_time_link',
  'attempt',
  'counted_attempt',
  'account_event',
  'import',
  'form_token',
];

const least = -(2n ** 63n);
const greatest = 2n ** 63n - 1n;

/** Rows in every table: NULLs and values in each column that may be NULL, the least and the greatest integers, and gaps in the ids. */
const rows = `
  INSERT INTO account VALUES (1, 'gone', 1, NULL, NULL), (2, 'owner "\\,{}', ${least}, NULL, NULL),
    (3, 'ada', ${greatest}, '$argon2id$v=19$m=19456,t=2,p=1$YQ$YQ', x'00ff5c22'), (4, 'last', 1, NULL, x'');
  INSERT INTO api_key VALUES
    (1, 2, 'NULL', 'ast_test_0001', randomblob(32), 'pets:read pets:write', 1, NULL, NULL, NULL, NULL, 0),
    (2, 3, '', 'ast_test_0002', zeroblob(32), '', ${least}, ${greatest}, 2, 3, 4, ${greatest}),
    (9, 3, 'é😀', 'ast_test_0009', randomblob(32), 'pets:read', 5, 6, 7, NULL, 9, 10);
  INSERT INTO idempotency VALUES (2, 'createPet', 'b', 1, 1), (2, 'createPet', 'a', ${greatest}, ${greatest}), (1, 'createPet', 'b', 1, 1);
  INSERT INTO message VALUES ('msg_2', 2, 'He said {"NULL"},\\ ' || char(10), 'queued', 1), ('msg_10', 3, '', 'queued', 2);
  INSERT INTO rotated_key VALUES (1, 9);
  INSERT INTO api_key_usage VALUES (1, 2, 1, 2, 3, 4, 5, 'pet_not_found', ${greatest}), (1, 1, 0, 0, 0, 0, 0, NULL, NULL);
  INSERT INTO api_key_error VALUES (2, ${greatest}, 'GET /v1/pets', 'rate_limited', 'b'), (2, ${greatest}, 'é', '', 'a'), (2, 1, '', 'x', 'c');
  DELETE FROM account WHERE id IN (1, 4);
  DELETE FROM api_key WHERE id = 9`;

/** A store with rows in every table, and `animals` animals besides those with the given names. */
async function makeSource(animals = 10, names: string[] = []) {
  const file = `${temporaryFolder()}/store.db`;
  const store = await open(`sqlite:${file}`);
  const all = [...names, ...Array.from(Array(animals), (_, at) => `pet ${at}`)];
  const add = (name: string, at: number) =>
    store.pets.add({ name, categoryId: at % 2 ? least : greatest, status: 'sold' });
  for (let from = 0; from < all.length; from += 1000) await Promise.all(all.slice(from, from + 1000).map(add));
  await store.close();
  change(file, rows);
  return file;
}

const copy = (file: string, to: string) => copyIntoPostgres(file, to, { now });
const command = (file: string, to: string) => ['copy', '--from', `sqlite:${file}`, '--to', to];
const shownAs = (to: string) => to.replace('app@', '');

/** Asserts that every row of every table is in the copy, with every column. */
async function expectComplete(file: string, to: string) {
  const given = `sqlite:${file}`;
  const names = await textRows(given, `SELECT name FROM sqlite_schema WHERE type = 'table'`);
  for (const table of names.map(({ name }) => `${name}`).filter((name) => !notCopied.includes(name))) {
    const columns = await textRows(given, `SELECT name, type FROM pragma_table_xinfo('${table}') ORDER BY 1`);
    const select = (hex: (column: string) => string) => {
      const texts = columns.map(({ name, type }) => `${type === 'BLOB' ? hex(`${name}`) : name} AS ${name}`);
      return `SELECT ${texts} FROM ${table} ORDER BY ${texts.map((_, index) => index + 1)}`;
    };
    const rows = await textRows(
      given,
      select((column) => `iif(${column} IS NULL, NULL, lower(hex(${column})))`),
    );
    expect(rows.length, table).toBeGreaterThan(0);
    expect(
      await textRows(
        to,
        select((column) => `encode(${column}, 'hex')`),
      ),
      table,
    ).toEqual(rows);
  }
}

/** Makes transactions that add a message wait for `go`: at once, or with `deferred` in their COMMIT. */
async function pauseAtMessage(to: string, deferred = false) {
  const sql = clientOf(to);
  const trigger = deferred
    ? 'CREATE CONSTRAINT TRIGGER pause AFTER INSERT ON message DEFERRABLE INITIALLY DEFERRED'
    : 'CREATE TRIGGER pause AFTER INSERT ON message';
  await sql.unsafe(`
    CREATE FUNCTION pause() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN PERFORM pg_advisory_xact_lock(1); RETURN NULL; END $$;
    ${trigger} FOR EACH ROW EXECUTE FUNCTION pause();
    SELECT pg_advisory_lock(1)`);
  return {
    sql,
    /** Resolves when a session of the database waits for a lock. */
    waiting: () => vi.waitUntil(() => waitingForLocks(sql), { timeout: 20_000 }),
    go: () => sql`SELECT pg_advisory_unlock(1)`,
  };
}

test('a copy has every column of every row, and no id of either store is given again', async () => {
  const names = ['\\"{},NULL\u0001é😀', 'x'.repeat(60_000), '😀'.repeat(1001), '\u2028', "'$1'", '\\x00', 'NULL', ' '];
  const file = await makeSource(5000, names);
  change(file, 'DELETE FROM pet WHERE id IN (3, (SELECT max(id) FROM pet))');
  const to = await newStore();
  await clientOf(to)`UPDATE pet_id SET last_id = 6000`;
  expect(await runCli(command(file, to))).toEqual({
    code: 0,
    stderr: '',
    stdout: expect.stringMatching(
      /^Copied and compared: 5006 rows of pet, 2 rows of account, 2 rows of api_key, 3 rows of idempotency, 2 rows of message, /,
    ),
  });
  await expectComplete(file, to);
  const store = await open(to);
  expect(await store.pets.add({ name: 'Biscuit', categoryId: 7n, status: 'sold' })).toMatchObject({ id: 6001n });
  expect(await store.accounts.addAccount('next')).toMatchObject({ id: 5 });
  expect(await textRows(to, `SELECT nextval(pg_get_serial_sequence('api_key', 'id'))`)).toEqual([{ nextval: '10' }]);
});

describe('a copy that fails leaves nothing', () => {
  const stop = 'CREATE TRIGGER planted BEFORE INSERT ON message FOR EACH ROW EXECUTE FUNCTION planted()';
  test.for([
    ['a changed row', `NEW.message := NEW.message || '.'; RETURN NEW;`, stop],
    [
      'a row too many',
      `IF pg_trigger_depth() = 1 THEN INSERT INTO message VALUES ('msg_3', 2, '', 'queued', 1); END IF; RETURN NULL;`,
      stop.replace('BEFORE', 'AFTER').replace('ROW', 'STATEMENT'),
    ],
  ])('if it has %s', async ([, body, trigger = '']) => {
    const [file, to] = [await makeSource(), await newStore()];
    const sql = clientOf(to);
    await sql.unsafe(
      `CREATE FUNCTION planted() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN ${body} END $$; ${trigger}`,
    );
    await expect(copy(file, to)).rejects.toThrow('message differs in the copy after 0 rows: nothing was copied.');
    await sql`DROP TRIGGER planted ON message`;
    for (const table of ['pet', 'account', 'api_key', 'message'])
      expect(await textRows(to, `SELECT count(*) FROM ${table}`)).toEqual([{ count: '0' }]);
    await copy(file, to);
    await expectComplete(file, to);
  });
});

test('everybody else waits for the copy', async () => {
  const [file, to] = [await makeSource(), await newStore()];
  const { waiting, go } = await pauseAtMessage(to);
  const copying = copy(file, to);
  await waiting();
  const other = clientOf(to);
  await other`SET lock_timeout = '100ms'`;
  for (const table of ['pet', 'account_event', 'pet_id', 'import'])
    await expect(other.unsafe(`SELECT FROM ${table}`)).rejects.toThrow('lock timeout');
  await go();
  await copying;
});

test('a lost COMMIT is reported as unknown', async () => {
  const [file, to] = [await makeSource(), await newStore()];
  const { sql, waiting, go } = await pauseAtMessage(to, true);
  const proxy = await startProxy(to);
  const copying = copy(file, proxy.url).catch((error: unknown) => error);
  await waiting();
  proxy.cutNextAnswer();
  await go();
  const label = shownAs(proxy.url);
  expect(String(await copying)).toMatch(`CopyError: It is unknown whether ${label} holds the copy: `);
  await sql`DROP TRIGGER pause ON message`;
  await expectComplete(file, to);
  // Whoever repeats it in doubt does no harm.
  await expect(copy(file, to)).rejects.toThrow('already holds rows');
});

test('a copy is refused if the database has a row, also in a table that is not copied', async () => {
  const [file, to] = [await makeSource(), await newStore()];
  await clientOf(to)`INSERT INTO account_event VALUES (1, 'account_invited', NULL, NULL, 1)`;
  expect(commandErrorOf(await runCli(command(file, to)))).toBe(
    `${shownAs(to)} already holds rows (account_event): copy to an empty database.`,
  );
});
