/** What the server process does in surroundings that are rare: other hosts and users, two starts at once, files that it may not use. */
import { execFileSync, spawnSync } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, statSync, writeFileSync } from 'node:fs';
import { networkInterfaces } from 'node:os';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { temporaryFolder } from '../../support/app.ts';
import { commandErrorOf } from '../../support/commands.ts';
import { launch, launchCli, launchServer, runCli, type Server, startServer } from '../../support/process.ts';
import { projectFolder } from '../../support/project.ts';
import { mountSmallDisk, noDisk } from '../../support/small-disk.ts';

const tabby = { name: 'Tabby', categoryId: 1 };
const isInstalled = (tool: string) => spawnSync(tool, ['--version']).error === undefined;

describe('the first start', () => {
  const hosts = ['0.0.0.0'];
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
    [{ SIGN_UP: 'off' }, /there is no API key yet: animal-store account add NAME, then key create/],
    [{ SIGN_UP: 'none' }, /there is no API key yet: animal-store account add NAME, then key create/],
  ])('production prints no key, but says how one is made: %s', async (env, sentence) => {
    const server = await startServer({ env: { DEPLOYMENT: 'production', ...env } });
    await server.seen('stdout', sentence);
    expect(await server.call(null, 'GET', '/v1/pets')).toMatchObject({ status: 401 });
    expect(await server.end('SIGTERM')).toMatchObject({ code: 0, stderr: '' });
  });

  test.each([
    [{ BASE_URL: 'https://api.example.com/animals/v1' }, 'https://api.example.com/animals'],
    [{ SIGN_UP: 'invitation' }, undefined],
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

  test.for(['022', '077'])('can be read only by their user, umask %s', async (umask) => {
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

describe('exit 1, with one sentence and no stack', () => {
  const refusal = async (env: Record<string, string>, folder?: string, under: string[] = []) => {
    const { code, stderr } = await launchServer({ env, under, ...(folder && { folder }) }).end();
    expect(code).toBe(1);
    expect(stderr).toMatch(/^(animal-store: [^\n]+\.\n)+$/);
    return stderr.replaceAll('animal-store: ', '').trimEnd();
  };

  test("HOST that is not this machine's names the setting", async () => {
    expect(await refusal({ HOST: '192.0.2.1' })).toMatch(/^HOST 192\.0\.2\.1 cannot be used to listen on: .+\.$/);
  });

  test('.env that cannot be read', async () => {
    const folder = temporaryFolder();
    mkdirSync(path.join(folder, '.env'));
    expect(await refusal({}, folder)).toMatch(/^\.env cannot be read: .+[^.]\.$/);
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
});

describe('the end', () => {
  test.for(['SIGTERM', 'SIGINT'])('%s as soon as the server heeds it: exit 0, and no stack', async (signal) => {
    const sendOnceHeeded = `process.on('newListener', (name) => name === '${signal}' && process.kill(process.pid, name))`;
    const preload = `data:text/javascript,${encodeURIComponent(sendOnceHeeded)}`;
    const server = launch(process.execPath, ['--import', preload, `${projectFolder}src/main.ts`], {
      env: { PORT: '0', OPS_PORT: '0' },
    });
    expect(await server.end()).toMatchObject({ code: 0, stderr: expect.not.stringMatching(/^ +at /m) });
  });
});
