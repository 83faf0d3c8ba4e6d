/** Tests that a command's output file is on disk under its final name when the command ends, from strace's log of its system calls. */
import fs from 'node:fs';
import path from 'node:path';
import { beforeEach, expect, test } from 'vitest';
import { temporaryFolder } from '../../support/app.ts';
import { commandErrorOf, commandFolder, namesIn } from '../../support/commands.ts';
import { asNobody, needNobody } from '../../support/nobody.ts';
import { launchCli, launchServer } from '../../support/process.ts';
import { injecting, needStrace, tracingFiles } from '../../support/strace.ts';
import { callsIn } from './disk-trace.ts';

beforeEach(needStrace);

test.for<[command: string, args: string[], made: string]>([
  ['backup', ['copy.db', '--force'], 'copy.db'],
  ['export', ['animals.jsonl'], 'animals.jsonl'],
  ['restore', ['copy.db'], 'data/animal-store.db'],
])(
  '%s waits for the disk: it syncs the data before the rename and the folder after it',
  async ([command, args, made]) => {
    const { folder, run } = await commandFolder({ name: 'Biscuit', categoryId: 7n, status: 'sold' });
    await run('backup', 'copy.db');
    const log = `${folder}/trace`;
    const exit = await launchCli([command, ...args], { folder, under: tracingFiles(log) }).end();
    expect(exit.code, exit.stderr).toBe(0);

    const calls = [...callsIn(log)].map(({ call, begun, done }) => {
      // fsync(24</tmp/a>) = 0, or rename("a", "/tmp/b") = 0
      const [, name = '', descriptor, from, to = ''] = /^(\w+)\((?:\d+<([^>]*)>|"([^"]*)", "([^"]*)")/.exec(call) ?? [];
      return { name, file: path.resolve(folder, descriptor ?? from ?? ''), to: path.resolve(folder, to), begun, done };
    });
    const renaming = calls.find(({ name, to }) => name === 'rename' && to === `${folder}/${made}`);
    const written = calls.findLast(({ name, file }) => /^p?write/.test(name) && file === renaming?.file);
    if (!renaming || !written) throw new Error(`${command} has renamed no file`);
    const inFolder = path.dirname(renaming.to);
    const synced = (what: string, from: number, to: number) =>
      calls.some(({ name, file, begun, done }) => name === 'fsync' && file === what && begun > from && done < to);
    expect([
      ...(synced(written.file, written.done, renaming.begun) ? ['what was written'] : []),
      ...(synced(inFolder, renaming.done, Number.POSITIVE_INFINITY) ? ['the name'] : []),
    ]).toEqual(['what was written', 'the name']);
  },
);

const biscuit = { name: 'Biscuit', categoryId: 7n, status: 'sold' } as const;

/** A folder with a store of Biscuit, its backup copy.db, and the folder out. */
async function withOut() {
  const here = await commandFolder(biscuit);
  await here.run('backup', 'copy.db');
  fs.mkdirSync(here.at('out'));
  return here;
}

const unsynced = (folder: string, reason: string) =>
  `${folder} cannot be synced (${reason}): a loss of power can still undo what was just created there.\n`;

const commands: [command: string, args: string[], folder: string, stderr?: string][] = [
  ['backup', ['out/n.db'], 'out'],
  ['export', ['out/n.jsonl'], 'out', 'Exported 1 animal.\n'],
  ['restore', ['copy.db'], './data'],
];

/** What strace injects, and what Node makes of it. */
const reasons = {
  EIO: 'EIO: i/o error, fsync',
  EINVAL: 'EINVAL: invalid argument, fsync',
  EOPNOTSUPP: 'ENOTSUP: operation not supported on socket, fsync',
  EROFS: 'EROFS: read-only file system, fsync',
};

test.for(commands.flatMap((row) => Object.entries(reasons).map((reason) => [reason, row] as const)))(
  'a folder whose fsync fails with %j is a sentence, and the file is there: %j',
  async ([[code, reason], [command, args, folder, more = '']]) => {
    const here = await withOut();
    const under = injecting('fsync', `error=${code}`, path.join(here.folder, folder));
    const { stderr, ...exit } = await launchCli([command, ...args], { folder: here.folder, under }).end();
    expect([exit.code, stderr]).toEqual([0, unsynced(folder, reason) + more]);
    const made = here.at(command === 'restore' ? 'data/animal-store.db' : (args[0] as string));
    expect(fs.readdirSync(path.dirname(made)).filter((name) => name.includes('partial'))).toEqual([]);
    if (command === 'export') expect(fs.readFileSync(made, 'utf8')).toMatch(/"Biscuit".+\n$/);
    else expect(namesIn(made)).toEqual(['Biscuit']);
  },
);

test.for(commands)(
  'exit 1, and no file, if its own fsync fails; the error names it: %j',
  async ([command, args, folder]) => {
    const here = await withOut();
    // The partial file's path is not known before. SQLite calls fdatasync.
    const under = injecting('fsync', 'error=EIO');
    const exit = await launchCli([command, ...args], { folder: here.folder, under }).end();
    expect(commandErrorOf(exit)).toMatch(
      /^\S+(?:\.partial-\S+ cannot be written: |\.db cannot be locked \().*I\/O error\b/i,
    );
    expect(fs.readdirSync(here.at(folder)).filter((name) => name !== 'animal-store.db')).toEqual([]);
  },
);

test.for(commands)(
  'a folder of another user that can be written but not opened is a sentence: %j',
  async ([command, args, folder, more = ''], context) => {
    needNobody(context);
    const here = await withOut();
    fs.chmodSync(here.folder, 0o755);
    for (const name of fs.readdirSync(here.folder, { recursive: true }).map(String))
      fs.chownSync(here.at(name), 65534, 65534);
    fs.chownSync(here.at(folder), 0, 0);
    fs.chmodSync(here.at(folder), 0o1733);
    // A command on the store writes beside it.
    const exit = await launchCli([command, ...args], { folder: here.folder, under: asNobody }).end();
    const reason = `EACCES: permission denied, open '${folder}'`;
    expect([exit.code, exit.stderr]).toEqual([0, unsynced(folder, reason) + more]);
  },
);

test('the folders that the first start makes are on disk, each in its parent', async () => {
  const folder = temporaryFolder();
  const log = `${folder}/trace`;
  const env = { DATABASE_URL: 'sqlite:deep/er/a.db' };
  const server = launchServer({ folder, env, under: tracingFiles(log) });
  await server.seen('stdout', /Server listening/);
  await server.end('SIGTERM');
  const synced = [...callsIn(log)].flatMap(({ call }) => /^fsync\(\d+<([^>]*)>\) += 0/.exec(call)?.[1] ?? []);
  expect(synced).toEqual(expect.arrayContaining([folder, `${folder}/deep`, `${folder}/deep/er`]));
});

test.for(['', '/deep'])('a first start whose folder%s cannot be synced says so, and serves', async (name) => {
  const folder = temporaryFolder();
  const env = { DATABASE_URL: 'sqlite:deep/er/a.db' };
  const server = launchServer({ folder, env, under: injecting('fsync', 'error=EINVAL', folder + name) });
  await server.seen('stdout', /Server listening/);
  expect(server.stdout()).toContain(unsynced(name ? 'deep' : '.', 'EINVAL: invalid argument, fsync').trimEnd());
  await server.stop();
});
