/** The life of the server process: its start, what it says and refuses, and its end. */
import { execFileSync, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, existsSync, mkdirSync, statSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { networkInterfaces } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import Database from 'better-sqlite3';
import { request } from 'undici';
import { describe, expect, onTestFinished, test } from 'vitest';
import { temporaryFolder } from '../../support/app.ts';
import { commandErrorOf } from '../../support/commands.ts';
import {
  begin,
  launch,
  launchCli,
  launchServer,
  openSocket,
  runCli,
  type Server,
  startServer,
} from '../../support/process.ts';
import { projectFolder } from '../../support/project.ts';
import { mountSmallDisk, noDisk } from '../../support/small-disk.ts';

const tabby = { name: 'Tabby', categoryId: 1 };
const isInstalled = (tool: string) => spawnSync(tool, ['--version']).error === undefined;

describe('the first start', () => {
  const hosts = [undefined, '0.0.0.0'];
  if (Object.values(networkInterfaces()).some((all) => all?.some(({ address }) => address === '::1')))
    hosts.push('::1', '::');

  test.for(hosts)(
    'makes a store and prints a key with a curl line that works as printed, HOST %s',
    async (HOST, { skip }) => {
      if (!isInstalled('curl')) skip('curl is not installed');
      const server = await startServer({ env: { HOST } });
      const key = await server.firstKey();
      const line = /^ {2}(curl .+)$/m.exec((await server.seen('stderr', /curl .+\n/)).input)?.[1] as string;
      expect(line).toContain(key);
      expect(execFileSync('sh', ['-c', line], { encoding: 'utf8', stdio: 'pipe' })).toBe('[]');
      expect(existsSync(path.join(server.folder, 'data/animal-store.db'))).toBe(true);
      expect(server.stdout()).toContain('migrations applied: 0001_initial.sql, ');
      await server.end('SIGTERM');
      expect(server.stderr().match(/ast_\w+/g)).toEqual([key, key]);
    },
  );

  test('the next start prints no key, and the first one still opens', async () => {
    const first = await startServer();
    const key = await first.firstKey();
    expect((await fetch(`${first.url}/docs`)).status).toBe(200);
    await first.end('SIGTERM');
    const second = await startServer({ folder: first.folder });
    expect(await second.call(key, 'GET', '/v1/pets')).toMatchObject({ status: 200 });
    expect(await second.end('SIGTERM')).toMatchObject({ stderr: '', stdout: expect.not.stringContaining('migration') });
  });

  test('none is printed where there is one of another account', async () => {
    const folder = temporaryFolder();
    for (const args of [
      ['account', 'add', 'owner'],
      ['key', 'create', '--account', 'owner', '--name', 'k'],
    ])
      expect(await runCli(args, { folder })).toMatchObject({ code: 0 });
    const server = await startServer({ folder });
    expect((await server.call(null, 'GET', '/v1/pets')).status).toBe(401);
    expect(await server.end('SIGTERM')).toMatchObject({ code: 0, stderr: '' });
  });

  test.each([
    [{}, /there is no API key yet: animal-store account invite, .*; or animal-store account add NAME, then key create/],
    [{ SIGN_UP: 'off' }, /there is no API key yet: animal-store account add NAME, then key create/],
    [{ SIGN_UP: 'none' }, /there is no API key yet: animal-store account add NAME, then key create/],
  ])('production prints no key, but says how one is made: %s', async (env, sentence) => {
    const server = await startServer({ env: { DEPLOYMENT: 'production', ...env } });
    await server.seen('stdout', sentence);
    expect(await server.call(null, 'GET', '/v1/pets')).toMatchObject({ status: 401 });
    expect(await server.end('SIGTERM')).toMatchObject({ code: 0, stderr: '' });
  });

  test.each([
    [{}, '{url}'],
    [{ BASE_URL: 'https://api.example.com/animals/v1' }, 'https://api.example.com/animals'],
    [{ SIGN_UP: 'invitation' }, undefined],
    [{ SIGN_UP: 'none' }, undefined],
  ])("a printed key comes with the account pages' address if sign-up is open: %s", async (env, root) => {
    const server = await startServer({ env });
    await server.firstKey();
    await server.end('SIGTERM');
    const named = /^Or make your own at (\S+)\/account\/sign-up$/m.exec(server.stderr())?.[1];
    expect(named).toBe(root?.replace('{url}', server.url));
  });

  test('two processes at once on no store: both serve, and one key is printed', async () => {
    const folder = temporaryFolder();
    const [one, other] = await Promise.all([startServer({ folder }), startServer({ folder })]);
    const key = await Promise.any([one.firstKey(), other.firstKey()]);
    const add = (server: Server) => server.call(key, 'POST', '/v1/pets', tabby);
    const answers = await Promise.all(Array.from({ length: 40 }, (_, index) => add(index % 2 ? one : other)));
    const ids = answers.map(({ status, json }) => (status === 201 ? json.id : status)).sort((a, b) => a - b);
    expect(ids).toEqual(Array.from({ length: 40 }, (_, index) => index + 1));
    for (const server of [one, other])
      expect((await server.call(key, 'GET', '/v1/pets?limit=100')).json).toHaveLength(40);
    const ends = await Promise.all([one.end('SIGTERM'), other.end('SIGTERM')]);
    expect(ends.map(({ code }) => code)).toEqual([0, 0]);
    expect(new Set(ends.flatMap(({ stderr }) => stderr.match(/ast_\w+/g) ?? []))).toEqual(new Set([key]));
  });
});

describe('the files of the store', () => {
  const modeOf = (file: string) => (statSync(file).mode & 0o777).toString(8);

  test.for(['000', '022', '077'])('can be read only by their user, umask %s', async (umask) => {
    const under = ['sh', '-c', `umask ${umask}; exec "$@"`, '-'];
    const server = await startServer({ under, env: { DATABASE_URL: 'sqlite:new/data/animals.db' } });
    const { status } = await server.call(await server.firstKey(), 'POST', '/v1/pets', tabby);
    expect(status).toBe(201);
    const modes = ['', '/data', '/data/animals.db', '/data/animals.db-wal', '/data/animals.db-shm'].map((name) =>
      modeOf(path.join(server.folder, `new${name}`)),
    );
    expect(modes).toEqual(['700', '700', '600', '600', '600']);
    await server.end('SIGTERM');
    const at = { folder: server.folder, under };
    const backup = { ...at, env: { DATABASE_URL: 'sqlite:new/data/animals.db' } };
    expect(await launchCli(['backup', 'copy.db'], backup).end()).toMatchObject({ code: 0 });
    const restore = { ...at, env: { DATABASE_URL: 'sqlite:other/restored.db' } };
    expect(await launchCli(['restore', 'copy.db'], restore).end()).toMatchObject({ code: 0 });
    const restored = ['copy.db', 'other', 'other/restored.db'].map((name) => modeOf(path.join(server.folder, name)));
    expect(restored).toEqual(['600', '700', '600']);
  });

  test('keep the modes that they have', async () => {
    const first = await startServer();
    const folder = path.join(first.folder, 'data');
    await first.end('SIGTERM');
    chmodSync(folder, 0o755);
    chmodSync(path.join(folder, 'animal-store.db'), 0o644);
    await startServer({ folder: first.folder });
    expect([folder, `${folder}/animal-store.db`, `${folder}/animal-store.db-wal`].map(modeOf)).toEqual([
      '755',
      '644',
      '644',
    ]);
  });
});

describe('the log', () => {
  test('is one JSON object a line on stdout, without any key', async () => {
    const server = await startServer();
    const key = await server.firstKey();
    await server.call(key, 'POST', '/v1/pets', tabby);
    await server.seen('stdout', /"msg":"request"/);
    const { stdout } = await server.end('SIGTERM');
    const lines = stdout.trimEnd().split('\n');
    expect(lines.map((line) => JSON.parse(line).msg)).toEqual([
      expect.stringMatching(/^migrations applied: 0001_initial\.sql, .+\.sql$/),
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

  test('names the settings that differ from their defaults, from the environment and from .env', async () => {
    const folder = temporaryFolder();
    writeFileSync(path.join(folder, '.env'), 'RATE_LIMIT=600\nLOG_LEVEL=info\n');
    const server = await startServer({ folder, env: { DATABASE_URL: 'sqlite:a.db', SUNSET_ENFORCE: 'true' } });
    const [line] = await server.seen('stdout', /^.*Server listening at.*$/m);
    expect(JSON.parse(line).settings).toEqual({ PORT: 0, OPS_PORT: '0', DATABASE_URL: 'a.db', RATE_LIMIT: 600 });
  });

  test('warns of each name in .env that is not a setting', async () => {
    const folder = temporaryFolder();
    const known = 'LOG_LEVEL=info\nDATABASE_URL_FILE=\nSIGN_UP_FILE=\nPGPASSWORD=x\n';
    writeFileSync(path.join(folder, '.env'), `${known}LOG_LVEL=debug\nRATE_LIMIT_FILES=x\ntoString=x\n`);
    const server = await startServer({ folder, env: { LOG_LVL: 'debug' } });
    const warnings = server
      .stdout()
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line))
      .filter(({ level }) => level === 40);
    expect(warnings.map(({ msg }) => msg)).toEqual([
      'LOG_LVEL in .env is not a setting',
      'RATE_LIMIT_FILES in .env is not a setting',
      'toString in .env is not a setting',
    ]);
  });

  test('is for people on a terminal', async ({ skip }) => {
    if (!isInstalled('script')) skip('script, of util-linux, is not installed: no terminal to be had');
    const command = `exec '${process.execPath}' '${projectFolder}src/main.ts'`;
    const terminal = launch('script', ['-qec', command, '/dev/null'], { env: { PORT: '0', OPS_PORT: '0' } });
    const [line] = await terminal.seen('stdout', /^.*Server listening at.*$/m);
    expect(line).toMatch(/^\[\d\d:\d\d:\d\d] \S*INFO\S*: \S*Server listening at http:/);
    expect(terminal.stdout()).not.toContain('{"level"');
  });
});

describe('settings', () => {
  test('.env is read, and the environment wins over it', async () => {
    const folder = temporaryFolder();
    writeFileSync(
      path.join(folder, '.env'),
      'DATABASE_URL=sqlite:./from-file.db\nDEPLOYMENT=production\nPORT=0\nQUICKSTART_BASE_PATH=/from-file\n',
    );
    const server = await startServer({ folder, env: { PORT: undefined, QUICKSTART_BASE_PATH: '/from-environment' } });
    expect(existsSync(path.join(folder, 'from-file.db'))).toBe(true);
    expect(await server.call(null, 'POST', '/from-environment/messages', {})).toMatchObject({ status: 401 });
    expect(await server.call(null, 'POST', '/from-file/messages', {})).toMatchObject({ status: 404 });
    expect(await server.end('SIGTERM')).toMatchObject({ stderr: '' });
  });

  test('BASE_URL, never Host, begins Link and Location', async () => {
    const server = await startServer({ env: { BASE_URL: 'https://api.example.com/store/v1', HOST: '0.0.0.0' } });
    const headers = { authorization: `Bearer ${await server.firstKey()}`, host: 'evil.example.com' };
    const page = await request(`${server.url}/v1/pets`, { headers });
    expect(page.headers.link).toBe('<https://api.example.com/store/v1/pets?limit=20>; rel="first"');
    const added = await request(`${server.url}/v1/pets`, {
      method: 'POST',
      headers: { ...headers, 'content-type': 'application/json' },
      body: JSON.stringify(tabby),
    });
    expect(added).toMatchObject({
      statusCode: 201,
      headers: { location: 'https://api.example.com/store/v1/pets/1' },
    });
  });

  test('QUICKSTART_BASE_PATH=off serves no messages', async () => {
    const server = await startServer({ env: { QUICKSTART_BASE_PATH: 'off' } });
    const answer = await server.call(await server.firstKey(), 'POST', '/quickstart/messages', { message: 'Hello' });
    expect(answer).toMatchObject({ status: 404, json: { code: 'route_not_found' } });
  });

  test('of CORS_ORIGINS and TRUST_PROXY each counts', async () => {
    const origins = ['https://app.example.com', 'https://other.example.com'];
    const server = await startServer({
      env: { CORS_ORIGINS: origins.join(), TRUST_PROXY: '192.0.2.1,127.0.0.1' },
    });
    const ask = (headers: Record<string, string>) =>
      request(`${server.url}/v1/pets`, { headers: { ...headers, authorization: 'Bearer guessed' } });
    for (const origin of origins)
      expect((await ask({ origin, 'x-forwarded-for': '198.51.100.1' })).headers).toMatchObject({
        'access-control-allow-origin': origin,
      });
    await ask({ 'x-forwarded-for': '198.51.100.2' });
    for (const client of ['1', '2']) await server.seen('stdout', new RegExp(`"address":"198\\.51\\.100\\.${client}"`));
  });

  /** Runs a server whose clock starts at the given time. */
  const clockAt = (time: string) => {
    const script = `
      const Real = Date, shift = Real.parse('${time}') - Real.now();
      globalThis.Date = class extends Real {
        constructor(...given) { super(...(given.length > 0 ? given : [Real.now() + shift])); }
        static now() { return Real.now() + shift; }
      };`;
    return { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(script)}` };
  };

  test.for([
    ['true', 410],
    ['false', 404],
  ] as const)('SUNSET_ENFORCE=%s: getPet answers %d after its removal date', async ([SUNSET_ENFORCE, status]) => {
    const server = await startServer({ env: { SUNSET_ENFORCE, ...clockAt('2030-12-05T00:00:00Z') } });
    expect(await server.call(await server.firstKey(), 'GET', '/v1/pets/1')).toMatchObject({ status });
  });

  test('in the last 90 days the start warns that getPet will be removed', async () => {
    const server = await startServer({ env: clockAt('2030-11-30T00:00:00Z') });
    expect(server.stdout()).toMatch(
      /"level":40,.*"msg":"GET \/pets\/\{petId\} will be removed in 5 days, on 2030-12-05/,
    );
  });
});

describe('exit 1, with one sentence and no stack', () => {
  const refusal = async (env: Record<string, string>, folder?: string, under: string[] = []) => {
    const { code, stderr } = await launchServer({ env, under, ...(folder && { folder }) }).end();
    expect(code).toBe(1);
    expect(stderr).toMatch(/^(animal-store: [^\n]+\.\n)+$/);
    return stderr.replaceAll('animal-store: ', '').trimEnd();
  };

  test('PORT in use names the setting', async () => {
    const holder = createServer().listen(0, '127.0.0.1');
    onTestFinished(() => void holder.close());
    await once(holder, 'listening');
    const { port } = holder.address() as AddressInfo;
    expect(await refusal({ PORT: String(port) })).toBe(
      `PORT ${port} on 127.0.0.1 is already in use: set PORT to a free port, or stop the process that uses it.`,
    );
  });

  test('OPS_PORT in use, as by another copy, names the setting', async () => {
    const other = await startServer();
    const { port } = new URL(other.opsUrl());
    expect(await refusal({ OPS_PORT: port })).toBe(
      `OPS_PORT ${port} on 127.0.0.1 is already in use: set OPS_PORT to a free port or to off, or stop the process that uses it.`,
    );
  });

  test('PORT and OPS_PORT in use are both named at once', async () => {
    const other = await startServer();
    const { port } = new URL(other.opsUrl());
    expect(await refusal({ PORT: String(other.port), OPS_PORT: port })).toBe(
      `PORT ${other.port} on 127.0.0.1 is already in use: set PORT to a free port, or stop the process that uses it.\n` +
        `OPS_PORT ${port} on 127.0.0.1 is already in use: set OPS_PORT to a free port or to off, or stop the process that uses it.`,
    );
  });

  test("HOST that is not this machine's names the setting", async () => {
    expect(await refusal({ HOST: '192.0.2.1' })).toMatch(/^HOST 192\.0\.2\.1 cannot be used to listen on: .+\.$/);
  });

  test('several bad settings are all named', async () => {
    const sentences = await refusal({ PORT: 'http', LOG_LEVEL: 'loud', BASE_URL: 'https://example.com' });
    expect(sentences.split('\n')).toEqual([
      'PORT must be a whole number from 0 to 65535.',
      'BASE_URL must be an http or https address that ends in /v1, without a query.',
      'LOG_LEVEL must be one of fatal, error, warn, info, debug, trace, silent.',
    ]);
  });

  test('.env that cannot be read', async () => {
    const folder = temporaryFolder();
    mkdirSync(path.join(folder, '.env'));
    expect(await refusal({}, folder)).toMatch(/^\.env cannot be read: .+[^.]\.$/);
  });

  test('a folder that cannot be made', async () => {
    const folder = temporaryFolder();
    writeFileSync(path.join(folder, 'file'), '');
    expect(await refusal({ DATABASE_URL: 'sqlite:file/data/store.db' }, folder)).toBe(
      `DATABASE_URL: file/data/store.db cannot be opened: ENOTDIR: not a directory, mkdir 'file/data'.`,
    );
  });

  /** Runs as a user whom permissions bind. */
  const asNobody = process.getuid?.() === 0 ? ['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups'] : [];
  const canReadProject = [...asNobody, 'test', '-r', `${projectFolder}src/cli.ts`];
  const isBound = spawnSync(canReadProject[0] as string, canReadProject.slice(1)).status === 0;
  const notBound = 'no other user can run the project';

  /** A folder that everybody can enter, with a store in `data`. */
  async function makeOpenFolder(): Promise<string> {
    const folder = temporaryFolder();
    chmodSync(folder, 0o755);
    expect(await runCli(['migrate'], { folder })).toMatchObject({ code: 0 });
    chmodSync(path.join(folder, 'data'), 0o755);
    chmodSync(path.join(folder, 'data/animal-store.db'), 0o644);
    return folder;
  }

  /** The sentences of the server and of commands for the same DATABASE_URL, with paths in `folder` as relative ones. */
  async function sentencesOf(file: string, folder: string, commands: string[], under: string[] = []) {
    const env = { DATABASE_URL: `sqlite:${file}` };
    const refused = async (command: string) =>
      commandErrorOf(await launchCli(command.split(' '), { folder, env, under }).end());
    const [server, ...others] = await Promise.all([refusal(env, folder, under), ...commands.map(refused)]);
    const [shown = '', ...rest] = [server, ...others].map((text) => text.replaceAll(`${folder}/`, ''));
    return { server: shown, commands: rest };
  }

  test('a folder in /proc, in which Node would try forever to create another', async ({ skip }) => {
    if (process.platform !== 'linux') skip('Linux only');
    const { server, commands } = await sentencesOf('/proc/x/y.db', temporaryFolder(), ['migrate', 'account add zoo']);
    for (const sentence of [server, ...commands])
      expect(sentence).toMatch(/^DATABASE_URL: \/proc\/x\/y\.db does not exist\b.*\.$/);
  });

  test('a folder that this user may not write to, with and without a store', async ({ skip }) => {
    if (!isBound) skip(notBound);
    const folder = await makeOpenFolder();
    const denied = 'cannot be opened: EACCES: permission denied,';
    for (const [name, cause] of [
      ['data/new.db', "open 'data/new.db'"],
      ['data/sub/new.db', "mkdir 'data/sub'"],
    ] as const) {
      const sentence = `DATABASE_URL: ${name} ${denied} ${cause}.`;
      expect(await sentencesOf(name, folder, ['migrate'], asNobody)).toEqual({
        server: sentence,
        commands: [sentence],
      });
    }
    chmodSync(path.join(folder, 'data/animal-store.db'), 0o666);
    const sentence = `DATABASE_URL: data/animal-store.db ${denied} access 'data'.`;
    expect(
      await sentencesOf('data/animal-store.db', folder, ['key list', 'account add zoo', 'export'], asNobody),
    ).toEqual({ server: sentence, commands: Array(3).fill(sentence) });
  });

  test('a file system that is read-only', async ({ skip }) => {
    const folder = temporaryFolder();
    const disk = path.join(folder, 'disk');
    if (!mountSmallDisk(disk, 1024)) skip(noDisk);
    expect(await runCli(['migrate'], { folder, env: { DATABASE_URL: 'sqlite:disk/store.db' } })).toMatchObject({
      code: 0,
    });
    expect(spawnSync('mount', ['-o', 'remount,ro', disk]).status).toBe(0);
    for (const [name, cause] of [
      ['disk/store.db', "open 'disk/store.db'"],
      ['disk/new/store.db', "mkdir 'disk/new'"],
    ] as const) {
      const sentence = `DATABASE_URL: ${name} cannot be opened: EROFS: read-only file system, ${cause}.`;
      expect(await sentencesOf(name, folder, ['account add zoo'])).toEqual({ server: sentence, commands: [sentence] });
    }
  });

  test.for([
    ['read', 0o000],
    ['write', 0o444],
  ] as const)('a file that this user may not %s', async ([, mode], { skip }) => {
    if (!isBound) skip(notBound);
    const folder = await makeOpenFolder();
    chmodSync(path.join(folder, 'data'), 0o777);
    chmodSync(path.join(folder, 'data/animal-store.db'), mode);
    const name = 'data/animal-store.db';
    const sentence = `DATABASE_URL: ${name} cannot be opened: EACCES: permission denied, open '${name}'.`;
    expect(await sentencesOf(name, folder, ['key list', 'account add zoo', 'export'], asNobody)).toEqual({
      server: sentence,
      commands: Array(3).fill(sentence),
    });
  });

  test('a folder in place of the file', async () => {
    const folder = temporaryFolder();
    mkdirSync(path.join(folder, 'store.db'));
    const sentence = 'DATABASE_URL: store.db is not a file.';
    expect(await sentencesOf('store.db', folder, ['key list', 'account add zoo', 'migrate', 'export'])).toEqual({
      server: sentence,
      commands: Array(4).fill(sentence),
    });
  });
});

describe('the end', () => {
  test.for(['SIGTERM', 'SIGINT'] as const)(
    '%s: exit 0 at once, though clients keep connections open',
    async (signal) => {
      const server = await startServer();
      const silent = await openSocket(server.port);
      const idle = await openSocket(server.port);
      idle.write('GET /v1/pets HTTP/1.1\r\nHost: localhost\r\n\r\n');
      expect(String((await once(idle, 'data'))[0])).toMatch(/^HTTP\/1\.1 401 /);
      expect([silent.readyState, idle.readyState]).toEqual(['open', 'open']);
      // At its deadline the process would exit with 1.
      expect(await server.end(signal)).toMatchObject({ code: 0 });
    },
  );

  test.for(['SIGTERM', 'SIGINT'])('%s as soon as the server heeds it: exit 0, and no stack', async (signal) => {
    const sendOnceHeeded = `process.on('newListener', (name) => name === '${signal}' && process.kill(process.pid, name))`;
    const preload = `data:text/javascript,${encodeURIComponent(sendOnceHeeded)}`;
    const server = launch(process.execPath, ['--import', preload, `${projectFolder}src/main.ts`], {
      env: { PORT: '0', OPS_PORT: '0' },
    });
    expect(await server.end()).toMatchObject({ code: 0, stderr: expect.not.stringMatching(/^ +at /m) });
  });

  test('SIGTERM: a request under way is answered, then exit 0, also if the signal is repeated', async () => {
    const server = await startServer();
    const socket = await begin(server);
    const end = server.end('SIGTERM');
    await server.seen('stdout', /"stopping"/);
    void server.end('SIGTERM');
    // Idle connections are looked for ten times a second meanwhile.
    await sleep(350);
    socket.write('{"name":"Tabby","categoryId":1}');
    expect(String((await once(socket, 'data'))[0])).toMatch(/^HTTP\/1\.1 201 /);
    expect(await end).toMatchObject({ code: 0 });
  });

  test('what one process was told, the next one knows', async () => {
    const first = await startServer();
    const key = await first.firstKey();
    const retry = { 'idempotency-key': 'once' };
    const add = (server: Server, pet: object) => server.call(key, 'POST', '/v1/pets', pet, retry);
    expect(await add(first, tabby)).toMatchObject({ status: 201, json: { id: 1 } });
    expect((await first.call(key, 'POST', '/quickstart/messages', { message: 'Hello' })).status).toBe(202);
    expect((await first.call(key, 'GET', '/v1/pets/1')).status).toBe(200);
    await first.end('SIGTERM');

    const second = await startServer({ folder: first.folder });
    const replay = await add(second, tabby);
    expect(replay).toMatchObject({ status: 201, json: { id: 1 } });
    expect(replay.headers.get('idempotent-replayed')).toBe('true');
    expect(await add(second, { ...tabby, name: 'Other' })).toMatchObject({ status: 422 });
    await second.end('SIGTERM');

    const database = new Database(path.join(first.folder, 'data/animal-store.db'), { readonly: true });
    expect(database.prepare('SELECT message, status FROM message').all()).toEqual([
      { message: 'Hello', status: 'queued' },
    ]);
    const uses = database.prepare('SELECT deprecated_calls, last_used_at FROM api_key').get();
    expect(uses).toEqual({ deprecated_calls: 1, last_used_at: expect.any(Number) });
    database.close();
  });

  test('an id is not given again, even where the highest animal was deleted by hand', async () => {
    const server = await startServer();
    const key = await server.firstKey();
    for (const id of [1, 2])
      expect(await server.call(key, 'POST', '/v1/pets', tabby)).toMatchObject({ status: 201, json: { id } });
    await server.end('SIGTERM');
    const database = new Database(path.join(server.folder, 'data/animal-store.db'));
    database.exec('DELETE FROM pet WHERE id = 2');
    database.close();

    const again = await startServer({ folder: server.folder });
    expect(await again.call(key, 'POST', '/v1/pets', tabby)).toMatchObject({ status: 201, json: { id: 3 } });
  });
});
