/** What the server process does in surroundings that are rare: other hosts and users, two starts at once, files that it may not use. */
import { spawnSync } from 'node:child_process';
import { chmodSync, writeFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { temporaryFolder } from '../../support/app.ts';
import { commandErrorOf } from '../../support/commands.ts';
import { launchCli, launchServer, runCli, startServer } from '../../support/process.ts';
import { projectFolder } from '../../support/project.ts';

describe('the first start', () => {
  test('prints no key if another account has one', async () => {
    const folder = temporaryFolder();
    for (const line of ['account add owner', 'key create --account owner --name k'])
      expect(await runCli(line.split(' '), { folder })).toMatchObject({ code: 0 });
    const server = await startServer({ folder });
    expect((await server.call(null, 'GET', '/v1/pets')).status).toBe(401);
    expect(await server.end('SIGTERM')).toMatchObject({ code: 0, stderr: '' });
  });
});

test('the log warns of each name in .env that is not a setting', async () => {
  const folder = temporaryFolder();
  const known = 'LOG_LEVEL=info\nDATABASE_URL_FILE=\nPGPASSWORD=x\n';
  writeFileSync(`${folder}/.env`, `${known}LOG_LVEL=debug\nRATE_LIMIT_FILES=x\ntoString=x\n`);
  const server = await startServer({ folder, env: { LOG_LVL: 'debug' } });
  const warned = server.stdout().matchAll(/"level":40,.*"msg":"(\S+) in \.env is not a setting"/g);
  expect([...warned].map(([, name]) => name)).toEqual(['LOG_LVEL', 'RATE_LIMIT_FILES', 'toString']);
});

describe('exit 1, with one sentence and no stack', () => {
  /** Runs as a user whom permissions bind. */
  const asNobody = process.getuid?.() === 0 ? ['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups'] : [];
  const [file = '', ...args] = [...asNobody, 'test', '-r', `${projectFolder}src/cli.ts`];
  const isBound = spawnSync(file, args).status === 0;

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
  ])('%s, in a folder of mode %o with a store of mode %o', async ([name, folderMode, mode, cause], { skip }) => {
    if (!isBound) skip('no other user can run the project');
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
