/** Tests of what a migration may change. */
import { describe, expect, test } from 'vitest';
import type { Migration } from '../../../src/store/migrations.ts';
import { findLosses, readObjects } from '../../support/schema-objects.ts';
import { execute, migrations, newUrl, onSqlite } from '../../support/schema-record.ts';
import { open } from '../../support/store.ts';

describe('a migration', () => {
  const lossesOf = async (databaseUrl: string, sql: string) => {
    const before = await readObjects(databaseUrl);
    await execute(databaseUrl, sql);
    return findLosses(before, await readObjects(databaseUrl));
  };

  /** The migrations of release 1.0.0. */
  const firstRelease = onSqlite ? 3 : 1;
  const onlyAdds = ({ version, oldest }: Migration) => oldest.version < version;

  test('only adds, if an earlier release can run on the schema after it', async () => {
    const databaseUrl = await newUrl();
    await execute(databaseUrl, '');
    expect(migrations.filter(onlyAdds).map(({ version }) => version)).toEqual(
      migrations.slice(firstRelease).map(({ version }) => version),
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
