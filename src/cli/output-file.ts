/** Files that a command makes: whole under their name, or not there at all. */
import { existsSync, readdirSync, renameSync, rmSync, statSync } from 'node:fs';
import path from 'node:path';
import { sync } from '../repository/files.ts';
import { sidecarFiles } from '../repository/sqlite/backup.ts';
import { isSame } from '../repository/sqlite/restore.ts';
import { CommandError, storeFile } from './store.ts';

/** Has a file made beside `file`, whole and on disk, that then takes its name. A file that is there already is replaced with `force` only. */
export async function replaceFile<Result>(
  file: string,
  force: boolean | undefined,
  make: (partial: string) => Promise<Result>,
): Promise<Result> {
  refuse(file, force);
  removeLeftovers(file);
  // A name of its own: of several processes with the same aim each finishes, and the last one's file stays.
  const partial = `${file}.${process.pid}.partial`;
  const result = await make(partial);
  renameSync(partial, file);
  sync(path.dirname(file));
  return result;
}

/** What processes that were killed have left, SQLite's journals among it. */
function removeLeftovers(file: string): void {
  const { dir, base } = path.parse(path.resolve(file));
  for (const name of existsSync(dir) ? readdirSync(dir) : []) {
    const pid = name.startsWith(`${base}.`) && /^(\d+)\.partial(?:-\w+)?$/.exec(name.slice(base.length + 1))?.[1];
    if (pid && !isRunning(Number(pid))) rmSync(path.join(dir, name), { force: true });
  }
}

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

function refuse(file: string, force: boolean | undefined): void {
  const store = storeFile();
  for (const part of [store, ...sidecarFiles.map((suffix) => store + suffix)])
    if (isSame(file, part)) throw new CommandError(`${file} is the store itself.`);
  if (!existsSync(file)) return;
  if (!statSync(file).isFile()) throw new CommandError(`${file} is not a file.`);
  if (!force) throw new CommandError(`${file} exists already: use --force to replace it.`);
}
