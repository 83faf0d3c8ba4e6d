/** What the server process does in surroundings that are rare: other hosts and users, two starts at once, files that it may not use. */
import { chmodSync, cpSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import Database from 'better-sqlite3';
import { describe, expect, test } from 'vitest';
import { temporaryFolder } from '../../support/app.ts';
import { commandErrorOf } from '../../support/commands.ts';
import { asNobody, needNobody } from '../../support/nobody.ts';
import { launch, launchCli, launchServer, runCli, startServer } from '../../support/process.ts';
import { projectFolder } from '../../support/project.ts';

test('the first start prints no key if another account has one', async () => {
  const folder = temporaryFolder();
  for (const line of ['account add owner', 'key create --account owner --name k'])
    expect(await runCli(line.split(' '), { folder })).toMatchObject({ code: 0 });
  const server = await startServer({ folder });
  expect((await server.call(null, 'GET', '/v1/pets')).status).toBe(401);
  expect(await server.end('SIGTERM')).toMatchObject({ code: 0, stderr: '' });
});

describe('npm start in a checkout', () => {
  /** Starts it in a folder with the files that run before all others. `needed`: the oldest Node. */
  async function start(needed: string) {
    const folder = temporaryFolder();
    for (const name of ['package.json', '.npmrc', 'src/start.cjs', 'src/preflight.cjs'])
      cpSync(projectFolder + name, `${folder}/${name}`);
    const manifest = readFileSync(`${folder}/package.json`, 'utf8');
    writeFileSync(`${folder}/package.json`, manifest.replace(/"node": ">=\d+"/, `"node": ">=${needed}"`));
    return launch('npm', ['start'], { folder }).end();
  }

  test.for([
    ['without its packages', '24', 'The package @fastify/bearer-auth is not installed: run npm ci.'],
    [
      'on a Node that is too old',
      '99',
      `Node 99 or later is needed, and this is ${process.version}. Install it; or run npm ci,`,
    ],
  ] as const)('%s: one sentence', async ([, needed, sentence]) => {
    const { code, stderr } = await start(needed);
    expect([code, stderr.split('\n')[0]]).toEqual([1, expect.stringContaining(`animal-store: ${sentence}`)]);
    expect(stderr).not.toContain('at ');
  });
});

test('SIGUSR1, as programs that rotate logs send it, opens no debugger', async () => {
  const server = await startServer();
  process.kill(server.pid, 'SIGUSR1');
  await sleep(500);
  expect((await server.get('/v1/pets')).status).toBe(200);
  expect((await server.end('SIGTERM')).stderr).not.toContain('Debugger');
});

test('a checkout with CRLF stores and serves the same', async () => {
  const source = temporaryFolder();
  const names = ['src', 'migrations', 'package.json', 'openapi.yaml', 'openapi.quickstart.yaml'];
  for (const name of names) cpSync(projectFolder + name, `${source}/${name}`, { recursive: true });
  for (const { parentPath, name } of readdirSync(source, { recursive: true, withFileTypes: true }).filter((each) =>
    each.isFile(),
  )) {
    const file = `${parentPath}/${name}`;
    writeFileSync(file, readFileSync(file, 'utf8').replaceAll('\n', '\r\n'));
  }
  symlinkSync(`${projectFolder}node_modules`, `${source}/node_modules`);
  const servers = [await startServer(), await startServer({ source })] as const;
  for (const path of [
    '/docs',
    '/docs/quickstart',
    '/docs/page.js',
    '/docs/page.css',
    '/openapi.yaml',
    '/openapi.json',
  ]) {
    const [right, converted] = await Promise.all(
      servers.map(async ({ url, port }) => (await (await fetch(url + path)).text()).replaceAll(String(port), 'PORT')),
    );
    expect(converted, path).toBe(right);
  }
  for (const server of servers) await server.end('SIGTERM');
  const [right, converted] = servers.map(({ folder }) => {
    const database = new Database(`${folder}/data/animal-store.db`, { readonly: true });
    const made = [database.pragma('user_version'), database.prepare('SELECT version, name FROM migration').all()];
    database.close();
    return made;
  });
  expect(converted).toEqual(right);
});

test('the log warns of each name in .env that is not a setting', async () => {
  const folder = temporaryFolder();
  const known = 'LOG_LEVEL=info\nDATABASE_URL_FILE=\nPGPASSWORD=x\n';
  writeFileSync(`${folder}/.env`, `${known}LOG_LVEL=debug\nWORKERS=2\ntoString=x\n`);
  const server = await startServer({ folder, env: { LOG_LVL: 'debug' } });
  const warned = [...server.stdout().matchAll(/"level":40,.*"msg":"(\S+ in \.env [^"]+)"/g)].map(([, text]) => text);
  expect(warned).toEqual([
    'LOG_LVEL in .env line 4 is not a setting. Did you mean LOG_LEVEL?',
    'WORKERS in .env line 5 is not a setting.',
    'toString in .env line 6 is not a setting.',
  ]);
});

describe('exit 1, with one sentence and no stack', () => {
  test.for([
    [{ HOST: '192.0.2.1' }, /^HOST 192\.0\.2\.1 cannot be used to listen on: .+\.$/],
    // In /proc, Node would try forever to create a folder.
    [{ DATABASE_URL: 'sqlite:/proc/x/y.db' }, /^DATABASE_URL: \/proc\/x\/y\.db does not exist\b.*\.$/],
  ] as const)('%j', async ([env, sentence]) => {
    // It may have made the store.
    expect(commandErrorOf({ ...(await launchServer({ env }).end()), stdout: '' })).toMatch(sentence);
  });

  const store = 'data/animal-store.db';
  test.for<[name: string, folderMode: number, mode: number, cause: string]>([
    ['data/new.db', 0o755, 0o644, "open 'data/new.db'"],
    [store, 0o755, 0o666, "access 'data'"],
    [store, 0o777, 0o000, `open '${store}'`],
  ])('%s, in a folder of mode %o with a store of mode %o', async ([name, folderMode, mode, cause], context) => {
    needNobody(context);
    const folder = temporaryFolder();
    chmodSync(folder, 0o755);
    expect(await runCli(['migrate'], { folder })).toMatchObject({ code: 0 });
    chmodSync(`${folder}/data`, folderMode);
    chmodSync(`${folder}/${store}`, mode);
    const surroundings = { folder, under: asNobody, env: { DATABASE_URL: `sqlite:${name}` } };
    const command = launchCli(['account', 'add', 'zoo'], surroundings);
    for (const { end } of [launchServer(surroundings), command])
      expect(commandErrorOf(await end()).replaceAll(`${folder}/`, '')).toBe(
        `DATABASE_URL: ${name} cannot be opened: EACCES: permission denied, ${cause}.`,
      );
  });
});
