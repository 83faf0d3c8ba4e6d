/** Tests of how PostgreSQL errors are classified by their code. */
import pg from 'pg';
import { expect, test } from 'vitest';
import {
  endsConnection,
  howToGrant,
  howToWrite,
  outcomeOf,
  reasonOf,
  StandbyError,
  TimeoutError,
  translate,
} from '../../../../src/store/postgres/errors.ts';
import { unavailable } from '../../../../src/store/store.ts';

const refused = (code: string) => Object.assign(new pg.DatabaseError('told', 0, 'error'), { code, detail: 'a row' });

// Appendix A of PostgreSQL's manual (https://www.postgresql.org/docs/18/errcodes-appendix.html).
test.for<[code: string, counts: string, ...expected: string[]]>([
  ['08006', 'connection', 'is temporary', 'ends the connection'],
  ['25P03', 'timeout', 'is temporary', 'ends the connection'],
  ['25006', 'read_only', 'is temporary', 'ends the connection', 'was refused'],
  ['57P03', 'connection', 'is temporary', 'ends the connection', 'was refused'],
  ['57P01', 'connection', 'is temporary', 'ends the connection'],
  ['40001', 'locked', 'is temporary', 'was refused'],
  ['40P01', 'locked', 'is temporary', 'was refused'],
  ['54000', 'other', 'is temporary'],
  ['53100', 'disk_full', 'is temporary'],
  ['53200', 'other', 'is temporary'],
  ['53300', 'connection', 'is temporary'],
  ['55P03', 'locked', 'is temporary'],
  ['57014', 'timeout', 'is temporary'],
  ['58030', 'io', 'is temporary'],
  ['XX001', 'io', 'is temporary'],
  ['XX000', 'other'],
  ['23505', 'other'],
  ['25001', 'other'],
  ['22P08', 'other'],
  ['28P01', 'connection'],
  ['3D000', 'connection'],
  ['F0008', 'other'],
])('%s from the server counts as %s', ([code, counts, ...expected]) => {
  const error = refused(code);
  const found = translate(error);
  const cause =
    code === '25006'
      ? Object.assign(new Error(`told: ${howToWrite}`), { code })
      : Object.assign(new Error('told'), { code, severity: undefined });
  expect(found).toEqual(expected.includes('is temporary') ? unavailable(cause) : cause);
  expect(JSON.stringify(found)).not.toContain('a row');
  expect(endsConnection(error)).toBe(expected.includes('ends the connection'));
  const outcome = expected.includes('ends the connection') ? 'lost' : 'failed';
  expect(outcomeOf(error)).toBe(expected.includes('was refused') ? 'refused' : outcome);
  expect(reasonOf(error)).toBe(counts);
});

test("a right that the role of a server lacks is the operator's to give", () => {
  const reason = `told: ${howToGrant}`;
  const cause = Object.assign(new Error(reason), { code: '42501' });
  expect(translate(refused('42501'))).toEqual(unavailable(cause));
  expect(translate(refused('42502'))).toEqual(Object.assign(new Error('told'), { code: '42502' }));
});

test.for(['40001', 'EPIPE', undefined])(
  '%s from the network means a lost connection and an unknown outcome',
  (code) => {
    const error = Object.assign(new Error('write EPIPE'), code && { code });
    expect((translate(error) as Error).cause).toBe(error);
    expect([endsConnection(error), outcomeOf(error)]).toEqual([true, 'lost']);
  },
);

test('errors without a SQLSTATE count as what they are', () => {
  // Has the form of a SQLSTATE.
  expect(reasonOf(Object.assign(new Error('write EPIPE'), { code: 'EPIPE' }))).toBe('connection');
  expect(reasonOf(new TimeoutError('late'))).toBe('timeout');
  expect(reasonOf(new StandbyError('in doubt'))).toBe('standby');
});
