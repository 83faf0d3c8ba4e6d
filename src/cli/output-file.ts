/** Files that a command writes: under its name, a file is complete or does not exist. */
import { existsSync, readdirSync, renameSync, rmSync, statSync } from 'node:fs';
import path from 'node:path';
import { getSystemErrorMessage } from 'node:util';
import { codeOf } from '../core/errors.ts';
import { sync } from '../store/files.ts';
import { sqliteFile } from '../store/open.ts';
import { type OutputFile, sidecarFiles } from '../store/sqlite/backup.ts';
import { isSame } from '../store/sqlite/restore.ts';
import { CommandError, type Context } from './context.ts';

/** Writes a temporary file, which `make` leaves on disk, then renames it to `name`. Replaces an existing file only with `force`. */
export async function replaceFile<Result>(
  context: Context,
  name: string,
  force: boolean | undefined,
  make: (partial: string) => Promise<Result>,
): Promise<Result> {
  const { file, partial } = claimFile(context, name, force);
  const result = await make(partial).catch((error: NodeJS.ErrnoException) => {
    // A write to an open file: the system's error has no path.
    if (error.errno !== undefined && error.path === undefined)
      throw new CommandError(`${name} cannot be written: ${getSystemErrorMessage(error.errno)}.`);
    throw error;
  });
  renameSync(partial, file);
  sync(path.dirname(file));
  return result;
}

/** The paths of a file that a command is about to write. Removes what killed processes left of it. Throws CommandError if it is refused. */
export function claimFile(context: Context, name: string, force: boolean | undefined): OutputFile {
  const file = context.resolve(name);
  refuse(context.databaseUrl(), file, name, force);
  removeLeftovers(file);
  // A temporary name for each process: if several write the same file, all succeed and the last one's file stays.
  return { file, partial: `${file}.${process.pid}.partial` };
}

/** Removes the temporary files of processes that were killed, SQLite's journals included. */
function removeLeftovers(file: string): void {
  const { dir, base } = path.parse(file);
  for (const name of existsSync(dir) ? readdirSync(dir) : []) {
    const pid = name.startsWith(`${base}.`) && /^(\d+)\.partial(?:-\w+)?$/.exec(name.slice(base.length + 1))?.[1];
    if (pid && !isRunning(Number(pid))) rmSync(path.join(dir, name), { force: true });
  }
}

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return codeOf(error) === 'EPERM';
  }
}

function refuse(databaseUrl: string, file: string, name: string, force: boolean | undefined): void {
  const store = databaseUrl.startsWith('sqlite:') ? ['', ...sidecarFiles] : [];
  for (const part of store.map((suffix) => sqliteFile(databaseUrl) + suffix))
    if (isSame(file, part)) throw new CommandError(`${name} is the store itself.`);
  if (!existsSync(path.dirname(file))) throw new CommandError(`${path.dirname(name)} does not exist.`);
  if (!existsSync(file)) return;
  if (!statSync(file).isFile()) throw new CommandError(`${name} is not a file.`);
  if (!force) throw new CommandError(`${name} exists already: use --force to replace it.`);
}
