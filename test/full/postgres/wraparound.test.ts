/** Tests of a PostgreSQL server that runs out of transaction ids: it first warns at each write, then refuses them. */
import fs from 'node:fs';
import path from 'node:path';
import postgres from 'postgres';
import { expect, onTestFinished, test } from 'vitest';
import { commandErrorOf } from '../../support/commands.ts';
import { type Cluster, missingPrograms, startCluster } from '../../support/postgres-programs.ts';
import { runCli } from '../../support/process.ts';
import { open, temporaryFolder, textRows } from '../../support/store.ts';

const biscuit = { name: 'Biscuit', categoryId: 7n, status: 'available' } as const;

/** A file of pg_xact holds the states of so many transactions, in two bits each. */
const idsOfFile = 32 * 8192 * 4;

/** A store on a server whose next transaction id is `nextId`. Its oldest one stays as it is, because one table cannot be vacuumed. */
async function startNear(nextId: number): Promise<Cluster & { databaseUrl: string }> {
  const cluster = await startCluster();
  const databaseUrl = cluster.url('postgres');
  await (await open(databaseUrl)).close();
  const sql = postgres(databaseUrl, { max: 1 });
  await sql`CREATE TABLE unreadable (id integer)`;
  const [{ file }] = await sql<[{ file: string }]>`SELECT pg_relation_filepath('unreadable') AS file`;
  await sql.end();
  const states = path.join(
    'pg_xact',
    Math.floor(nextId / idsOfFile)
      .toString(16)
      .toUpperCase()
      .padStart(4, '0'),
  );
  await cluster.shell(`
    pg_ctl stop --wait --mode=fast
    rm $PGDATA/${file}
    head --bytes=${idsOfFile / 4} /dev/zero > $PGDATA/${states}
    pg_resetwal --next-transaction-id=${nextId} $PGDATA
    pg_ctl start --wait`);
  return { ...cluster, databaseUrl };
}

test.skipIf(missingPrograms)(
  'a write is acknowledged although PostgreSQL warns at each: 1 to 40 million left',
  async () => {
    const { databaseUrl } = await startNear(2_126_000_000);
    const warnings: postgres.Notice[] = [];
    const sql = postgres(databaseUrl, { max: 1, onnotice: (notice) => warnings.push(notice) });
    onTestFinished(() => sql.end());
    await sql`SELECT pg_current_xact_id()`;
    expect(warnings).toMatchObject([{ severity: 'WARNING', code: '01000', routine: 'GetNewTransactionId' }]);
    const store = await open(databaseUrl);
    for (const id of [1n, 2n, 3n]) expect(await store.pets.add(biscuit)).toMatchObject({ outcome: 'added', id });
    await store.accounts.addAccount('owner');
    expect(store.measure().failedWrites?.standby).toBe(0);
  },
);

test.skipIf(missingPrograms)('a write that PostgreSQL refuses gets 503, and a command one sentence', async () => {
  const { databaseUrl } = await startNear(2_145_500_000);
  const store = await open(databaseUrl);
  await expect(store.pets.add(biscuit)).rejects.toMatchObject({
    code: 'service_unavailable',
    cause: { code: '54000' },
  });
  expect((await store.pets.list({ limit: 1, after: 0n })).pets).toEqual([]);
  const folder = temporaryFolder();
  fs.writeFileSync(path.join(folder, 'pets.jsonl'), '{"name":"Biscuit","categoryId":7}\n');
  const refused = async (...args: string[]) =>
    commandErrorOf(await runCli(args, { folder, env: { DATABASE_URL: databaseUrl } }));
  const reason = 'database is not accepting commands .* wraparound data loss in database "\\w+"';
  expect(await refused('account', 'add', 'owner')).toMatch(new RegExp(`^The store cannot answer: ${reason}\\.$`));
  expect(await refused('import', 'pets.jsonl')).toMatch(
    new RegExp(`^The store cannot be written \\(${reason}\\): at least 0 animals added\\. `),
  );
  expect(await textRows(databaseUrl, 'SELECT count(*) FROM pet')).toEqual([{ count: '0' }]);
});
