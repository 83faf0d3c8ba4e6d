/** Tests that other writes go on while an account with very many ended keys is removed. */
import { expect, test } from 'vitest';
import { percentile } from '../support/percentile.ts';
import { emptyStore, open, runSql, textRows } from '../support/store.ts';
import { figure, patientMs } from '../support/tier.ts';

test(
  'removing an account with very many ended keys does not keep other writes waiting',
  async () => {
    const keys = 1_000_000;
    const databaseUrl = await emptyStore();
    const store = await open(databaseUrl);
    await store.accounts.addAccount('zoo');
    // As releases without a limit of ended keys left them.
    await runSql(
      databaseUrl,
      `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${keys})
       INSERT INTO api_key (account_id, name, hint, hash, scopes, created_at, revoked_at)
       SELECT 1, 'k', '', randomblob(32), '', 0, 1 FROM n`,
    );
    let removing = true;
    const times: number[] = [];
    const write = async () => {
      while (removing) {
        const begun = performance.now();
        await store.pets.add({ name: 'x', categoryId: 1n, status: 'sold' });
        times.push(performance.now() - begun);
      }
    };
    const writes = write();
    const begun = performance.now();
    expect(await store.accounts.removeAccount('zoo')).toMatchObject({ name: 'zoo' });
    const seconds = (performance.now() - begun) / 1000;
    removing = false;
    await writes;
    expect(await textRows(databaseUrl, 'SELECT count(*) AS n FROM api_key')).toEqual([{ n: '0' }]);
    const slowest = Math.max(...times);
    figure(
      `an account with ${keys} ended keys removed in ${seconds.toFixed(1)} s; ${times.length} writes meanwhile, p50 ${percentile(times, 50).toFixed(1)} ms, slowest ${slowest.toFixed(0)} ms`,
    );
    // In one transaction, all writes would wait for seconds.
    expect(percentile(times, 99)).toBeLessThan(100);
  },
  patientMs,
);
