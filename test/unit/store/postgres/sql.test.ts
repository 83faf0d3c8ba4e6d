/** Tests of the notice that tells a commit which may not be on its standby. */
import { EventEmitter } from 'node:events';
import type pg from 'pg';
import { expect, test } from 'vitest';
import { StandbyError } from '../../../../src/store/postgres/errors.ts';
import { createConnection, isStandbyWarning } from '../../../../src/store/postgres/sql.ts';

test.for([
  [{ code: '01000', routine: 'SyncRepWaitForLSN' }, true],
  // A pooler has removed the field: the commit is in doubt.
  [{ code: '01000' }, true],
  // A trigger raises it.
  [{ code: '01000', routine: 'exec_stmt_raise' }, false],
  [{ code: '00000', routine: 'SyncRepWaitForLSN' }, false],
] as const)('%o says that a commit may not be on the standby: %s', ([notice, expected]) => {
  expect(isStandbyWarning(notice)).toBe(expected);
});

test('the statement with such a notice rejects, and no later one', async () => {
  const notices = [
    { code: '01000', routine: 'SyncRepWaitForLSN' },
    { code: '01000', routine: 'exec_stmt_raise' },
  ];
  const client = Object.assign(new EventEmitter(), {
    query(_: pg.QueryConfig, done: (error: null, result: object) => void) {
      client.emit('notice', notices.shift());
      done(null, { rows: [] });
    },
  });
  const { unsafe } = createConnection(client as unknown as pg.ClientBase, true);
  await expect(unsafe('COMMIT')).rejects.toThrow(StandbyError);
  expect(await unsafe('COMMIT')).toEqual([]);
});
