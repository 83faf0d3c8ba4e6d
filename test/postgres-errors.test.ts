/** Tests of how PostgreSQL errors are classified by their code. */
import pg from 'pg';
import { expect, test } from 'vitest';
import { endsConnection, translate, wasRefused } from '../src/repository/postgres/errors.ts';
import { unavailable } from '../src/repository/store.ts';

const refused = (code: string) => Object.assign(new pg.DatabaseError('told', 0, 'error'), { code, detail: 'a row' });

// Appendix A of PostgreSQL's manual (https://www.postgresql.org/docs/18/errcodes-appendix.html).
test.for([
  ['08006', 'is temporary', 'ends the connection'],
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

test.for(['40001', 'EPIPE', undefined])(
  '%s from the network means a lost connection and an unknown outcome',
  (code) => {
    const error = Object.assign(new Error('write EPIPE'), code && { code });
    expect((translate(error) as Error).cause).toBe(error);
    expect([endsConnection(error), wasRefused(error)]).toEqual([true, false]);
  },
);
