/** Tests of reading the URL of a PostgreSQL database. */
import fs from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { readTarget } from '../../../src/store/postgres/url.ts';
import { OpenError } from '../../../src/store/store.ts';
import { launchServer, runCli, startServer } from '../../support/process.ts';
import { emptyStore, newDatabase, open, temporaryFolder } from '../../support/store.ts';

test('omitted parts have defaults: port 5432, no TLS, named statements, ten connections', () => {
  expect(readTarget('postgres://db/animals')).toEqual({
    ...{ host: 'db', port: 5432 },
    database: 'animals',
    user: undefined,
    password: undefined,
    ssl: false,
    prepare: true,
    connections: 10,
    label: 'postgres://db/animals',
  });
});

test('every part is read, and the URL for messages has neither user nor password', () => {
  const host = 'db.example.com:6432';
  expect(readTarget(`postgresql://a%40b:p%2Fw%3A@${host}/ani%20mals?prepare=false&connections=1000`)).toEqual({
    ...{ host: 'db.example.com', port: 6432 },
    database: 'ani mals',
    user: 'a@b',
    password: 'p/w:',
    ssl: false,
    prepare: false,
    connections: 1000,
    label: `postgres://${host}/ani%20mals`,
  });
  expect(readTarget('postgres://app@db/animals?connections=1')).toMatchObject({
    ...{ user: 'app', password: undefined, connections: 1 },
  });
  expect(readTarget('postgres://app:@db/animals?prepare=true')).toMatchObject({ password: '', prepare: true });
});

test('the host may be an address, also of IPv6', () => {
  const addresses = ['[::1]:5433', '[fe80::A:1]', '10.0.0.1'].map((host) => readTarget(`postgres://${host}/animals`));
  expect(addresses).toMatchObject([
    { host: '::1', port: 5433 },
    { host: 'fe80::A:1', port: 5432 },
    { host: '10.0.0.1', port: 5432 },
  ]);
});

test('a percent-encoded folder is that of a Unix socket', () => {
  expect(readTarget('postgres://app@%2Fvar%2Frun%2Fpostgresql:5433/animals')).toMatchObject({
    ...{ host: '/var/run/postgresql', port: 5433 },
  });
});

test('sslmode, sslrootcert, sslcert and sslkey are read', () => {
  const ssl = (query: string) => readTarget(`postgres://db/animals?${query}`).ssl;
  const file = path.join(temporaryFolder(), 'root.crt');
  fs.writeFileSync(file, 'a certificate, é');
  expect(ssl('sslmode=disable')).toBe(false);
  expect(ssl('sslmode=require')).toEqual({ rejectUnauthorized: false });
  const pair = { cert: 'a certificate, é', key: 'a certificate, é' };
  expect(ssl(`sslmode=verify-full&sslcert=${file}&sslkey=${file}`)).toEqual({ rejectUnauthorized: true, ...pair });
  expect(ssl(`sslmode=require&sslcert=${file}&sslkey=${file}`)).toEqual({ rejectUnauthorized: false, ...pair });
  for (const mode of ['verify-ca', 'verify-full']) {
    expect(ssl(`sslmode=${mode}`)).toEqual({ rejectUnauthorized: true });
    expect(ssl(`sslmode=${mode}&sslrootcert=${file}`)).toEqual({ rejectUnauthorized: true, ca: 'a certificate, é' });
  }
});

const format =
  'the address must be postgres://user:password@host:port/database, with an IPv6 address in brackets; in user and password, write / as %2F, @ as %40 and % as %25.';
const several =
  'names several hosts: name one endpoint that leads to the primary, such as HAProxy in front of the cluster (docs/scaling.md).';
const modes = 'sslmode must be one of disable, require, verify-ca, verify-full.';
/** Runs a command whose stderr is a terminal. */
const onTerminal = (databaseUrl: string) =>
  runCli(['key', 'list', '--json'], { env: { DATABASE_URL: databaseUrl }, isTTY: true });

const count = 'connections must be a whole number from 1 to 1000.';

test.for([
  ['postgres://host', format],
  ['postgres://host/', format],
  ['postgres:///animals', format],
  ['postgres://host/a/b', format],
  ['postgres://user:p@ss@host/a', format],
  ['postgres://user:p/ss@host/a', format],
  [' postgres://host/a', format],
  ['mysql://host/a', format],
  ['postgres://host:x/a', format],
  ['postgres://host:/a', format],
  ['postgres://host:0/a', format],
  ['postgres://host:123456/a', format],
  ['postgres://host:1.5/a', format],
  ['postgres://[::1]:543210/a', format],
  ['postgres://host:5432,[::1]:5432/a', several],
  ['postgres://host,/a', several],
  ['postgres://::1/a', format],
  ['postgres://[host]/a', format],
  ['postgres://[::1]x/a', format],
  ['postgres://x[::1]/a', format],
  ['postgres://host/a?sslmode=sometimes', modes],
  ['postgres://host/a?sslmode=', modes],
  ['postgres://host/a?sslmode=prefer', modes],
  ['postgres://host/a?connections=0', count],
  ['postgres://host/a?connections=1001', count],
  ['postgres://host/a?connections=1.5', count],
  ['postgres://host/a?connections=ten', count],
  ['postgres://host/a?reads=lease', 'reads is not one of sslmode, sslrootcert, sslcert, sslkey, prepare, connections.'],
] as const)('%s is rejected: %s', ([databaseUrl, sentence]) => {
  expect(() => readTarget(databaseUrl)).toThrow(new OpenError(sentence));
});

test.for([
  ['password', 'postgres://app:100%@host/a'],
  ['password', 'postgres://app:secret%zz@host/a'],
  ['user', 'postgres://100%:secret@host/a'],
  ['host', 'postgres://app:secret@%2Ftmp%/a'],
  ['database', 'postgres://app:secret@host/100%'],
])('a %s that is not percent-encoded is rejected: %s', ([, databaseUrl = '']) => {
  expect(() => readTarget(databaseUrl)).toThrow(new OpenError(format));
});

test.for([
  'postgres://animals:s3cret/s3cret@db.example.com',
  'postgres://animals:s3cret/s3cret@db.example.com/animals',
  'postgres://animals:123/s3cret@db',
  'postgres://animals:123/s3cret@db/animals',
  'postgres://animals:s3cret@s3cret@db/animals',
  'postgres://animals:s3cret?s3cret@db/a/b',
  'postgres://animals:s3cret/x?s3cret@db/animals',
  'postgres://animals:123/x?s3cret@db/animals',
  'postgres://animals:123/x?s3cret=x@db/animals',
  'postgres://animals:s3cret%@db/animals',
  // Without a host.
  'postgres://animals:s3cret',
  'postgres://animals:s3cret/animals',
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

test('a path of a certificate may have an @, unlike the database', () => {
  const file = path.join(temporaryFolder(), 'a@b.crt');
  fs.writeFileSync(file, 'a certificate');
  expect(readTarget(`postgres://host/a?sslmode=verify-full&sslrootcert=${file}`).ssl).toMatchObject({
    ca: 'a certificate',
  });
});

test('a command names the store on a terminal without user, password and parameters', async () => {
  const databaseUrl = await emptyStore();
  const place = databaseUrl.replace(/^.*@/, '');
  // The server trusts every client.
  expect(await onTerminal(`postgres://app:s%2Fe?cret@${place}?connections=1`)).toMatchObject({
    code: 0,
    stderr: `Store: postgres://${place}\n`,
  });
  const refused = { code: 1, stderr: `animal-store: DATABASE_URL: ${format}\n` };
  expect(await onTerminal(`postgres://app:s3/cret@${place}`)).toMatchObject(refused);
});

test('a command and the server print such a fault as one sentence', async () => {
  const env = { DATABASE_URL: 'postgres://app:100%@host/a' };
  const fault = {
    code: 1,
    stdout: '',
    stderr: `animal-store: DATABASE_URL: ${format}\n`,
  };
  expect(await runCli(['key', 'list'], { env })).toEqual(fault);
  expect(await launchServer({ env }).end()).toEqual(fault);
});

test('a certificate that cannot be read is an error', () => {
  const file = path.join(temporaryFolder(), 'root.crt');
  const read = () => readTarget(`postgres://host/a?sslmode=verify-full&sslrootcert=${file}`);
  const reason = `ENOENT: no such file or directory, open '${file}'`;
  expect(read).toThrow(new OpenError(`sslrootcert cannot be read: ${reason}.`));
});

test('an invalid URL is reported before any connection is opened', async () => {
  await expect(open('postgres://host/a?connections=0')).rejects.toThrow(new OpenError(count));
});

test('the log of a server names its database without user, password and parameters', async () => {
  const url = new URL(await newDatabase());
  Object.assign(url, { password: 'hidden', search: 'connections=2' });
  const server = await startServer({ env: { DATABASE_URL: url.href } });
  const [line] = await server.seen('stdout', /^.*Server listening at.*$/m);
  expect(JSON.parse(line).settings.DATABASE_URL).toBe(`postgres://${url.host}${url.pathname}`);
  expect(server.stdout()).not.toContain('hidden');
});
