/** Tests of how PostgreSQL errors are classified by their code. */
import pg from 'pg';
import { expect, test } from 'vitest';
import {
  endsConnection,
  howToGrant,
  reasonOf,
  StandbyError,
  TimeoutError,
  translate,
  wasRefused,
} from '../../../src/store/postgres/errors.ts';
import { unavailable } from '../../../src/store/store.ts';

const refused = (code: string) => Object.assign(new pg.DatabaseError('told', 0, 'error'), { code, detail: 'a row' });

// Appendix A of PostgreSQL's manual (https://www.postgresql.org/docs/18/errcodes-appendix.html).
test.for([
  ['08006', 'is temporary', 'ends the connection'],
  ['25P03', 'is temporary', 'ends the connection'],
  ['25P04', 'is temporary', 'ends the connection'],
  ['54000', 'is temporary'],
  ['25006', 'is temporary', 'ends the connection', 'was refused'],
  ['57P03', 'is temporary', 'ends the connection', 'was refused'],
  ['57P01', 'is temporary', 'ends the connection'],
  ['40001', 'is temporary', 'was refused'],
  ['40P01', 'is temporary', 'was refused'],
  ['53100', 'is temporary'],
  ['55P03', 'is temporary'],
  ['57014', 'is temporary'],
  ['58030', 'is temporary'],
  ['XX001', 'is temporary'],
  ['XX002', 'is temporary'],
  ['XX000'],
  ['23505'],
  ['42P01'],
  ['25001'],
  ['55000'],
  ['22P08'],
  ['F0008'],
  ['42P57'],
  ['22006'],
])('%s from the server is classified', ([code = '', ...expected]) => {
  const error = refused(code);
  const found = translate(error);
  const cause = Object.assign(new Error('told'), { code, severity: undefined });
  expect(found).toEqual(expected.includes('is temporary') ? unavailable(cause) : cause);
  expect(JSON.stringify(found)).not.toContain('a row');
  expect(endsConnection(error)).toBe(expected.includes('ends the connection'));
  expect(wasRefused(error)).toBe(expected.includes('was refused'));
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
    expect([endsConnection(error), wasRefused(error)]).toEqual([true, false]);
  },
);

test.for([
  ['53100', 'disk_full'],
  ['53300', 'connection'],
  ['53200', 'other'],
  ['55P03', 'locked'],
  ['55000', 'other'],
  ['40001', 'locked'],
  ['40P01', 'locked'],
  ['58030', 'io'],
  ['XX001', 'io'],
  ['XX000', 'other'],
  ['25006', 'read_only'],
  ['57014', 'timeout'],
  ['25P03', 'timeout'],
  ['25P04', 'timeout'],
  ['57P01', 'connection'],
  ['08006', 'connection'],
  ['28P01', 'connection'],
  ['3D000', 'connection'],
  ['23505', 'other'],
  ['42501', 'other'],
  ['22008', 'other'],
  ['54000', 'other'],
  ['P0001', 'other'],
  ['ZZ999', 'other'],
])('%s counts as %s', ([code = '', reason]) => {
  expect(reasonOf(refused(code))).toBe(reason);
});

test('errors without a SQLSTATE count as what they are', () => {
  // Has the form of a SQLSTATE.
  expect(reasonOf(Object.assign(new Error('write EPIPE'), { code: 'EPIPE' }))).toBe('connection');
  expect(reasonOf(new TimeoutError('late'))).toBe('timeout');
  expect(reasonOf(new StandbyError('in doubt'))).toBe('standby');
});
