/** Tests of reading the URL of a PostgreSQL database, and that no message and no log has what is secret in it. */
import fs from 'node:fs';
import pg from 'pg';
import { expect, test } from 'vitest';
import { readTarget, type Target } from '../../../src/store/postgres/url.ts';
import { OpenError } from '../../../src/store/store.ts';
import { runCli, startServer } from '../../support/process.ts';
import { newStore, temporaryFolder } from '../../support/store.ts';

test('omitted parts have defaults: port 5432, no TLS, named statements, ten connections', () => {
  expect(readTarget('postgres://db/animals')).toEqual({
    host: 'db',
    port: 5432,
    database: 'animals',
    user: undefined,
    password: undefined,
    ssl: false,
    prepare: true,
    connections: 10,
    label: 'postgres://db/animals',
    channelBinding: 'disable',
  });
});

test.for<[string, Partial<Target>]>([
  [
    'postgres://a%40b:p%2Fw%3A@db/ani%20mals',
    { user: 'a@b', password: 'p/w:', database: 'ani mals', label: 'postgres://db/ani%20mals' },
  ],
  ['postgres://[::1]:5433/a', { host: '::1', port: 5433 }],
  ['postgres://app@%2Fvar%2Frun%2Fpostgresql:5433/a', { host: '/var/run/postgresql', port: 5433 }],
  ['postgres://db/a?prepare=false&connections=1000', { prepare: false, connections: 1000 }],
])('%s is read', ([databaseUrl, expected]) => {
  expect(readTarget(databaseUrl)).toMatchObject(expected);
});

test('sslmode, sslrootcert, sslcert and sslkey are read', () => {
  const file = `${temporaryFolder()}/a@b.crt`;
  fs.writeFileSync(file, 'a certificate, é');
  const pair = { cert: 'a certificate, é', key: 'a certificate, é' };
  const verified = { rejectUnauthorized: true };
  for (const [query, ssl] of [
    ['disable', false],
    ['require', { rejectUnauthorized: false, checkServerIdentity: expect.any(Function) }],
    ['verify-ca', verified],
    [`verify-full&sslrootcert=${file}`, { ...verified, ca: 'a certificate, é' }],
    [`verify-full&sslcert=${file}&sslkey=${file}`, { ...verified, ...pair }],
  ] as const) {
    const target = readTarget(`postgres://db/animals?sslmode=${query}`);
    expect([query, target.ssl]).toEqual([query, ssl]);
    // The driver hides the key.
    expect(JSON.stringify(new pg.Client({ ssl: target.ssl }))).not.toContain('"key"');
  }
});

const format =
  'the address must be postgres://user:password@host:port/database, with an IPv6 address in brackets; in user and password, write / as %2F, @ as %40 and % as %25.';
const several =
  'names several hosts: name one endpoint that leads to the primary, such as HAProxy in front of the cluster (docs/scaling.md).';

test.for([
  ['postgres://host', format],
  ['mysql://host/a', format],
  ['postgres://host:65536/a', format],
  ['postgres://host:5432,[::1]:5432/a', several],
  ['postgres://[host]/a', format],
  ['postgres://host/a?sslmode=prefer', 'sslmode must be one of disable, require, verify-ca, verify-full.'],
  ['postgres://host/a?sslrootcert=/root.crt', 'sslrootcert needs sslmode=verify-full.'],
  ['postgres://host/a?prepare=no', 'prepare must be true or false.'],
  ['postgres://host/a?connections=1001', 'connections must be a whole number from 1 to 1000.'],
  [
    'postgres://host/a?reads=lease',
    'reads is not one of sslmode, sslrootcert, sslcert, sslkey, channel_binding, prepare, connections.',
  ],
  ['postgres://app:secret@host/100%', format],
  [
    'postgres://host/a?sslmode=verify-full&sslrootcert=/no/root.crt',
    "sslrootcert cannot be read: ENOENT: no such file or directory, open '/no/root.crt'.",
  ],
] as const)('%s is rejected: %s', ([databaseUrl, sentence]) => {
  expect(() => readTarget(databaseUrl)).toThrow(new OpenError(sentence));
});

test.for([
  'postgres://animals:s3cret/s3cret@db.example.com/animals',
  'postgres://animals:s3cret/x?s3cret@db/animals',
  'postgres://animals:123/x?s3cret=x@db/animals',
  // Without a host.
  'postgres://animals:s3cret',
  'postgres://:s3cret/animals',
  'postgres://animals:543210/animals',
])('no message contains the password: %s', (databaseUrl) => {
  let message = '';
  try {
    readTarget(databaseUrl);
  } catch (error) {
    ({ message } = error as OpenError);
  }
  expect(message).toMatch(/\.$/);
  expect(message).not.toMatch(/s3cret|123|543210/);
});

test('a command on a terminal and a log name the store without user, password and parameters', async () => {
  const place = (await newStore()).replace(/^.*@/, '');
  // The server trusts every client.
  const env = { DATABASE_URL: `postgres://app:s%2Fe?cret@${place}?connections=2` };
  expect(await runCli(['key', 'list'], { env, isTTY: true })).toMatchObject({
    code: 0,
    stderr: `Store: postgres://${place}\n`,
  });
  const server = await startServer({ env });
  const [line] = await server.seen('stdout', /^.*"settings".*$/m);
  expect(JSON.parse(line).settings.DATABASE_URL).toBe(`postgres://${place}`);
  expect(server.stdout()).not.toContain('cret@');
});
