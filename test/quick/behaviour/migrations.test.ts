/** Tests of what a migration may change, and of what a store records of its schema. */
import { describe, expect, test } from 'vitest';
import { latestOf, type Migration } from '../../../src/store/migrations.ts';
import { findLosses, readObjects } from '../../support/schema-objects.ts';
import { complete, execute, lastVersion, migrations, newUrl, onSqlite, recordOf } from '../../support/schema-record.ts';
import { open } from '../../support/store.ts';

test('a store that a version between 1.0.0 and this one made is corrected when it is opened', async () => {
  const databaseUrl = await newUrl();
  await (await open(databaseUrl)).pets.add({ name: 'Biscuit', categoryId: 7n, status: 'sold' });
  await execute(
    databaseUrl,
    onSqlite
      ? `DELETE FROM migration WHERE version = 0; PRAGMA user_version = ${latestOf(migrations)}`
      : `INSERT INTO migration SELECT * FROM additive_migration; DROP TABLE additive_migration;
         UPDATE migration SET name = '' WHERE version = 0`,
  );
  const applied: string[] = [];
  const store = await open(databaseUrl, { onMigration: (name) => void applied.push(name) });
  expect(applied).toEqual([]);
  expect(await recordOf(databaseUrl)).toEqual(complete);
  expect((await store.pets.list({ limit: 1, after: 0n })).pets).toHaveLength(1);
});

describe('a migration', () => {
  const lossesOf = async (databaseUrl: string, sql: string) => {
    const before = await readObjects(databaseUrl);
    await execute(databaseUrl, sql);
    return findLosses(before, await readObjects(databaseUrl));
  };

  const onlyAdds = ({ version, oldest }: Migration) => oldest.version < version;

  test('only adds, if an earlier release can run on the schema after it', async () => {
    const databaseUrl = await newUrl();
    await execute(databaseUrl, '');
    expect(migrations.filter(onlyAdds).map(({ version }) => version)).toEqual(
      migrations.slice(lastVersion).map(({ version }) => version),
    );
    for (const migration of migrations) {
      const losses = await lossesOf(databaseUrl, migration.sql);
      if (onlyAdds(migration)) expect(losses, migration.name).toEqual([]);
    }
  });

  const harmless = ['CREATE TABLE later (id integer PRIMARY KEY)', 'ALTER TABLE message ADD COLUMN later text'];
  /** One after the other. */
  const harmful = [
    ...['DROP INDEX pet_status_id', 'CREATE UNIQUE INDEX once ON message (message)'],
    ...['ALTER TABLE message RENAME COLUMN status TO state', 'ALTER TABLE message DROP COLUMN state'],
    ...['ALTER TABLE message RENAME TO note', 'DROP TABLE note'],
    ...(onSqlite
      ? ['DROP TRIGGER pet_updated']
      : [
          ...['DROP TRIGGER keep_last_id ON pet', 'DROP FUNCTION forget_attempts(bytea[], boolean[])'],
          ...['ALTER TABLE session ADD COLUMN later text NOT NULL', 'ALTER TABLE pet ADD CHECK (category_id > 0)'],
          'ALTER TABLE api_key ALTER COLUMN deprecated_calls TYPE integer',
        ]),
  ];

  test('that takes something away, or demands more of writers, would be noticed', async () => {
    const databaseUrl = await newUrl();
    await (await open(databaseUrl)).close();
    for (const sql of harmless) expect(await lossesOf(databaseUrl, sql), sql).toEqual([]);
    for (const sql of harmful) expect(await lossesOf(databaseUrl, sql), sql).not.toEqual([]);
  });
});
