/** Tests that this release opens the stores of older ones, and that a release runs on the schema of a later one, or refuses it in one sentence. */
import { describe, expect, test } from 'vitest';
import { latestOf, oldestOn, readMigrations } from '../../../src/store/migrations.ts';
import { keyOf, makeKey, password, toKeys } from '../../support/account-pages.ts';
import { openFormClient } from '../../support/form-client.ts';
import { launchCli, launchServer, type Server, startServer } from '../../support/process.ts';
import { newDatabase, open, temporaryFolder, textRows } from '../../support/store.ts';
import { laterRelease, missingRelease, previous, releases, sourceOf } from './releases.ts';

describe.each(['sqlite', 'postgres'] as const)('%s', (engine) => {
  const onSqlite = engine === 'sqlite';
  const migrations = readMigrations(engine);

  const newUrl = async () => (onSqlite ? `sqlite:${temporaryFolder()}/store.db` : newDatabase());

  /** The number that releases compare, the oldest release, and the versions that were applied. */
  async function recordOf(databaseUrl: string) {
    const [release] = await textRows(databaseUrl, 'SELECT name FROM migration WHERE version = 0');
    const all = onSqlite
      ? 'migration'
      : '(SELECT * FROM migration UNION ALL SELECT * FROM additive_migration) AS applied';
    const applied = await textRows(databaseUrl, `SELECT version FROM ${all} WHERE version > 0 ORDER BY version`);
    const compared = onSqlite
      ? 'SELECT user_version AS n FROM pragma_user_version'
      : 'SELECT max(version) AS n FROM migration';
    const [number] = await textRows(databaseUrl, compared);
    return {
      compared: Number(number?.n),
      release: release?.name,
      applied: applied.map(({ version }) => Number(version)),
    };
  }

  const { release, version: compared } = oldestOn(migrations);
  const complete = { compared, release, applied: migrations.map(({ version }) => version) };
  const latest = latestOf(migrations);

  async function create(server: Server, key: string, name: string) {
    const { status, json } = await server.call(
      key,
      'POST',
      '/v1/pets',
      { name, categoryId: 7 },
      { 'idempotency-key': name },
    );
    expect(status).toBe(201);
    return json.id;
  }

  const namesOf = async (server: Server, key: string) =>
    (await server.call(key, 'GET', '/v1/pets?limit=100')).json.map(({ name }: { name: string }) => name);

  test.for(releases)('a store of release %s is migrated, and nothing is lost', async (release, { skip }) => {
    const missing = missingRelease(release);
    if (missing) skip(missing);
    const env = { DATABASE_URL: await newUrl() };
    const older = await startServer({ env, source: sourceOf(release) });
    const key = await older.firstKey();
    for (const name of ['one', 'two']) await create(older, key, name);
    await older.stop();
    const newer = await startServer({ env });
    expect(await recordOf(env.DATABASE_URL)).toEqual(complete);
    expect(await create(newer, key, 'one')).toBe(1);
    expect(await create(newer, key, 'three')).toBe(3);
    expect(await namesOf(newer, key)).toEqual(['one', 'two', 'three']);
    const two = { id: 2, name: 'two', categoryId: 7, status: 'available' };
    expect((await newer.call(key, 'GET', '/v1/pets/2')).json).toEqual(two);
    expect((await launchCli(['check'], { env }).end()).code).toBe(0);
  });

  const servesBoth = `release ${previous} serves beside this one, before and after the migration, and alone; this one then finds everything`;
  test(servesBoth, async ({ skip }) => {
    const missing = missingRelease(previous);
    if (missing) skip(missing);
    const env = { DATABASE_URL: await newUrl() };
    const source = sourceOf(previous);
    const older = await startServer({ env, source });
    const ada = openFormClient(older.url);
    expect(await ada.post('/account/sign-up', { name: 'ada', password })).toMatchObject({ status: 303 });
    const key = keyOf(await makeKey(ada));
    expect(await create(older, key, 'one')).toBe(1);

    const newer = await startServer({ env });
    expect(await recordOf(env.DATABASE_URL)).toEqual(complete);
    /** Another server, with the cookies of ada's browser, whose names have the port. */
    const at = ({ url }: Server) => {
      const client = openFormClient(url);
      const [from, to] = [older, { url }].map((server) => new URL(server.url).port) as [string, string];
      for (const [name, value] of ada.jar) client.jar.set(name.replace(from, to), value);
      return client;
    };
    // With the fields of a page of the older release that is still open.
    expect(keyOf(await makeKey(at(newer), { name: 'import' }))).toMatch(/^ast_/);
    expect(await create(older, key, 'two')).toBe(2);
    expect(await create(newer, key, 'three')).toBe(3);
    for (const server of [older, newer]) expect(await create(server, key, 'one')).toBe(1);
    await newer.stop();

    expect(await create(older, key, 'four')).toBe(4);
    expect(await namesOf(older, key)).toEqual(['one', 'two', 'three', 'four']);
    const olderKey = keyOf(await makeKey(ada, { name: 'export' }));
    await older.stop();
    // It also starts anew, when no process of this release has the store open.
    expect((await (await startServer({ env, source })).end('SIGTERM')).code).toBe(0);
    expect(await recordOf(env.DATABASE_URL)).toEqual(complete);

    const again = await startServer({ env });
    expect(again.stdout()).not.toContain('.sql');
    expect(await namesOf(again, olderKey)).toEqual(['one', 'two', 'three', 'four']);
    expect((await at(again).get('/account')).status).toBe(200);
    const elsewhere = openFormClient(again.url);
    expect(await elsewhere.post('/account/sign-in', { name: 'ada', password })).toMatchObject(toKeys);
  });

  describe('a schema that a later release made', () => {
    const name = '9999_later.sql';

    /** A store of this release that a later one, with one migration more, has migrated. */
    async function migrateLater(sql: string): Promise<Record<'DATABASE_URL', string>> {
      const env = { DATABASE_URL: await newUrl() };
      await (await open(env.DATABASE_URL)).close();
      const { code, stdout } = await launchCli(['migrate'], { env, source: laterRelease(engine, name, sql) }).end();
      expect([code, stdout]).toEqual([0, expect.stringContaining(name)]);
      return env;
    }

    test('is refused in one sentence if it needs that release', async () => {
      const line = '-- Release 3.0.0 (schema version 9999) and later run on this schema.\n';
      const env = await migrateLater(`${line}DROP TABLE message;`);
      const sentence = `has schema version 9999; this release supports versions up to ${latest}: use release 3.0.0 or later.\n`;
      for (const process of [launchServer({ env }), launchCli(['migrate'], { env })]) {
        const { code, stdout, stderr } = await process.end();
        expect([code, stdout]).toEqual([1, '']);
        expect(stderr).toMatch(/^animal-store: [^\n]+\n$/);
        expect(stderr).toContain(sentence);
      }
      const applied = [...complete.applied, 9999];
      expect(await recordOf(env.DATABASE_URL)).toEqual({ compared: 9999, release: '3.0.0', applied });
    });

    test('is used as it is if it names this release', async () => {
      const line = `-- Release 2.0.0 (schema version ${latest}) and later run on this schema.\n`;
      const env = await migrateLater(`${line}ALTER TABLE message ADD COLUMN later text;`);
      const { DATABASE_URL } = env;
      const { code, stdout } = await launchCli(['check'], { env }).end();
      expect([code, stdout]).toEqual([0, expect.stringMatching(/^schema version +9999$/m)]);
      const store = await open(DATABASE_URL);
      const message = { id: 'm', accountId: 1, message: 'hi', status: 'queued', createdAt: new Date(0).toISOString() };
      await store.messages.add(message as Parameters<typeof store.messages.add>[0]);
      expect(await textRows(DATABASE_URL, 'SELECT id, later FROM message')).toEqual([{ id: 'm', later: null }]);
      // Releases before this one refuse it.
      const applied = [...complete.applied, 9999];
      expect(await recordOf(DATABASE_URL)).toEqual({ compared: latest, release: '2.0.0', applied });
    });
  });
});
