/** The life of the server process: its start, what it says and refuses, and its end. */
import { execFileSync, spawnSync } from 'node:child_process';
import { chmodSync, existsSync, statSync, writeFileSync } from 'node:fs';
import { request } from 'undici';
import { expect, test } from 'vitest';
import { temporaryFolder } from '../../support/app.ts';
import { commandErrorOf, query } from '../../support/commands.ts';
import { launchCli, launchServer, type Server, startServer, tabby, withScript } from '../../support/process.ts';
import { converse } from '../../support/raw.ts';

const modeOf = (name: string) => (statSync(name).mode & 0o777).toString(8);
test('the first start makes a store and prints a key with a curl line that works as printed; the log is JSON, without the key', async ({
  skip,
}) => {
  if (spawnSync('curl', ['--version']).error) skip('curl is not installed');
  const server = await startServer();
  const key = await server.firstKey();
  const line = /^ {2}(curl .+)$/m.exec((await server.seen('stderr', /curl .+\n/)).input)?.[1] as string;
  expect(line).toContain(key);
  expect(execFileSync('sh', ['-c', line], { encoding: 'utf8', stdio: 'pipe' })).toBe('[]');
  const { stdout, stderr } = await server.end('SIGTERM');
  expect(stderr.match(/ast_\w+/g)).toEqual([key, key]);
  const lines = stdout.trimEnd().split('\n');
  expect(lines.map((each) => JSON.parse(each).msg)).toEqual([
    expect.stringMatching(/^migrations applied: 0001_initial\.sql, .+\.sql$/),
    'starting',
    expect.stringContaining('Ops port open at http://127.0.0.1:'),
    expect.stringContaining('Server listening at'),
    'account created',
    'key created',
    'request',
    'stopping',
    'stopped',
  ]);
  expect(stdout).not.toContain(key);
});

test('the next start prints no key, knows what the first was told, and keeps the modes of the files', {
  timeout: 120_000,
}, async () => {
  const first = await startServer();
  const key = await first.firstKey();
  const add = (server: Server, pet: object) => server.call(key, 'POST', '/v1/pets', pet, { 'idempotency-key': 'once' });
  expect(await add(first, tabby)).toMatchObject({ status: 201, json: { id: 1 } });
  expect((await first.call(key, 'POST', '/quickstart/messages', { message: 'Hello' })).status).toBe(202);
  expect((await first.get('/v1/pets/1')).status).toBe(200);
  await first.end('SIGTERM');
  const folder = `${first.folder}/data`;
  const file = `${folder}/animal-store.db`;
  chmodSync(folder, 0o755);
  chmodSync(file, 0o644);

  const second = await startServer({ folder: first.folder });
  expect([folder, file, `${file}-wal`].map(modeOf)).toEqual(['755', '644', '644']);
  const replay = await add(second, tabby);
  expect([replay.json.id, replay.headers.get('idempotent-replayed')]).toEqual([1, 'true']);
  expect(await add(second, { ...tabby, name: 'Other' })).toMatchObject({ status: 422 });
  expect(await second.end('SIGTERM')).toMatchObject({ stderr: '', stdout: expect.not.stringContaining('migration') });
  expect(query(file, 'SELECT message, status FROM message')).toEqual([{ message: 'Hello', status: 'queued' }]);
  const uses = { deprecated_calls: 1, last_used_at: expect.any(Number) };
  expect(query(file, 'SELECT deprecated_calls, last_used_at FROM api_key')).toEqual([uses]);
});

test.each([
  ['invitation', 'animal-store account invite'],
  ['none', 'animal-store account add NAME, then key create --account NAME --name NAME'],
])(
  'production with SIGN_UP=%s prints no key, but says how one is made, and warns that BASE_URL is not set',
  async (mode, how) => {
    const server = await startServer({ env: { DEPLOYMENT: 'production', SIGN_UP: mode } });
    await server.seen('stdout', new RegExp(`"there is no API key yet: ${how}"`));
    await server.seen('stdout', /"BASE_URL is not set: documents and one-time links do not name the public address"/);
    expect(await server.call(null, 'GET', '/v1/pets')).toMatchObject({ status: 401 });
    expect(await server.end('SIGTERM')).toMatchObject({ code: 0, stderr: '' });
  },
);

test('the files of a store, a backup and a restored store can be read only by their user, whatever the umask', {
  timeout: 120_000,
}, async () => {
  const under = ['sh', '-c', 'umask 000; exec "$@"', '-'];
  const env = { DATABASE_URL: 'sqlite:new/data/animals.db' };
  const server = await startServer({ under, env });
  const { folder } = server;
  const modesOf = (...names: string[]) => names.map((name) => modeOf(`${folder}/${name}`));
  expect((await server.add()).status).toBe(201);
  const files = ['', '-wal', '-shm'].map((suffix) => `new/data/animals.db${suffix}`);
  expect(modesOf('new', 'new/data', ...files)).toEqual(['700', '700', '600', '600', '600']);
  await server.end('SIGTERM');
  const run = (env: Record<string, string>, ...args: string[]) => launchCli(args, { folder, under, env }).end();
  expect(await run(env, 'backup', 'copy.db')).toMatchObject({ code: 0 });
  expect(await run({ DATABASE_URL: 'sqlite:other/restored.db' }, 'restore', 'copy.db')).toMatchObject({ code: 0 });
  expect(modesOf('copy.db', 'other', 'other/restored.db')).toEqual(['600', '700', '600']);
});

/** The clock of the server starts at the given time. */
const clockAt = (time: string) =>
  withScript(`
    const Real = Date, shift = Real.parse('${time}') - Real.now();
    globalThis.Date = class extends Real {
      constructor(...given) { super(...(given.length > 0 ? given : [Real.now() + shift])); }
      static now() { return Real.now() + shift; }
    };`);

test('each setting counts, from the environment before .env; the log has them', async () => {
  const folder = temporaryFolder();
  writeFileSync(
    `${folder}/.env`,
    'DATABASE_URL=sqlite:./from-file.db\nPORT=0\nRATE_LIMIT=600\nLOG_LEVEL=info\nQUICKSTART_BASE_PATH=/from-file\n',
  );
  const [origin, other] = ['https://app.example.com', 'https://other.example.com'] as const;
  const env = {
    PORT: undefined,
    HOST: '::',
    BASE_URL: 'https://api.example.com/store/v1',
    SUNSET_ENFORCE: 'false',
    CORS_ORIGINS: `${origin},${other}`,
    TRUST_PROXY: '192.0.2.1,127.0.0.1',
    QUICKSTART_BASE_PATH: '/from-env',
  };
  const server = await startServer({ folder, env: { ...env, ...clockAt('2030-12-05T00:00:00Z') } });
  expect(existsSync(`${folder}/from-file.db`)).toBe(true);
  const [line] = await server.seen('stdout', /^.*"settings".*$/m);
  const read = { DATABASE_URL: 'sqlite:./from-file.db', OPS_PORT: '0', PORT: 0, RATE_LIMIT: 600, LOG_LEVEL: 'info' };
  expect(JSON.parse(line).settings).toMatchObject({ ...read, BASE_URL: env.BASE_URL, HOST: env.HOST });

  const key = await server.firstKey();
  expect(await server.call(null, 'POST', '/from-env/messages', {})).toMatchObject({ status: 401 });
  expect(await server.call(null, 'POST', '/from-file/messages', {})).toMatchObject({ status: 404 });
  const headers = { authorization: `Bearer ${key}`, host: 'evil.example.com', 'x-forwarded-for': '198.51.100.1' };
  for (const from of [origin, other]) {
    // IPv4, on a socket of IPv6.
    const page = await request(`http://127.0.0.1:${server.port}/v1/pets`, { headers: { ...headers, origin: from } });
    expect(page.headers).toMatchObject({
      link: '<https://api.example.com/store/v1/pets?limit=20>; rel="first"',
      'access-control-allow-origin': from,
      'ratelimit-limit': '600',
    });
  }
  await server.seen('stdout', /"address":"198\.51\.100\.1"/);
  const [refused] = await converse(server.port, ['BREW / HTTP/1.1\r\n\r\n']);
  expect(refused?.status).toBe(400);
  await server.seen('stdout', /"status":400,"address":"127\.0\.0\.1"/);
  const added = await server.add();
  expect(added.headers.get('location')).toBe('https://api.example.com/store/v1/pets/1');
  expect(await server.get('/v1/pets/1')).toMatchObject({ status: 200 });
});

test('a port in use is named: exit 1, with one sentence', async () => {
  const other = await startServer();
  const opsPort = new URL(other.opsUrl()).port;
  for (const [name, port, others] of [
    ['PORT', String(other.port), ''],
    ['OPS_PORT', opsPort, ' or to off'],
  ] as const) {
    // It may have made the store.
    const exit = await launchServer({ env: { [name]: port } }).end();
    expect(commandErrorOf({ ...exit, stdout: '' })).toBe(
      `${name} ${port} on 127.0.0.1 is already in use: set ${name} to a free port${others}, or stop the process that uses it.`,
    );
  }
  const both = await launchServer({ env: { PORT: String(other.port), OPS_PORT: opsPort } }).end();
  expect(both.stderr.match(/^animal-store: (OPS_)?PORT \d+ on 127\.0\.0\.1 is already in use/gm)).toHaveLength(2);
});
