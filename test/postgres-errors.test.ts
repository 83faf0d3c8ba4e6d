/** What PostgreSQL's errors mean, code by code. */
import postgres from 'postgres';
import { expect, test } from 'vitest';
import { endsConnection, translate, wasRefused } from '../src/repository/postgres/errors.ts';
import { unavailable } from '../src/repository/store.ts';

const refused = (code: string) =>
  Object.assign(new postgres.PostgresError('' as never), { code, message: 'told', detail: 'a row' });

// Appendix A of PostgreSQL's manual (https://www.postgresql.org/docs/18/errcodes-appendix.html).
test.for([
  ['08006', 'passes', 'ends the connection'],
  ['25006', 'passes', 'ends the connection', 'was refused'],
  ['57P03', 'passes', 'ends the connection', 'was refused'],
  ['57P01', 'passes', 'ends the connection'],
  ['40001', 'passes', 'was refused'],
  ['40P01', 'passes', 'was refused'],
  ['53100', 'passes'],
  ['55P03', 'passes'],
  ['57014', 'passes'],
  ['58030', 'passes'],
  ['XX001', 'passes'],
  ['XX002', 'passes'],
  ['XX000'],
  ['23505'],
  ['42P01'],
  ['25001'],
  ['55000'],
  ['22P08'],
  ['F0008'],
  ['42P57'],
  ['22006'],
])('%s', ([code = '', ...meant]) => {
  const error = refused(code);
  const found = translate(error);
  const cause = Object.assign(new Error('told'), { code, severity: undefined });
  expect(found).toEqual(meant.includes('passes') ? unavailable(cause) : cause);
  expect(JSON.stringify(found)).not.toContain('a row');
  expect(endsConnection(error)).toBe(meant.includes('ends the connection'));
  expect(wasRefused(error)).toBe(meant.includes('was refused'));
});

test.for(['40001', 'EPIPE', undefined])(
  '%s, not of the server: the connection is lost, and the outcome unknown',
  (code) => {
    const error = Object.assign(new Error('write EPIPE'), code && { code });
    expect((translate(error) as Error).cause).toBe(error);
    expect([endsConnection(error), wasRefused(error)]).toEqual([true, false]);
  },
);
