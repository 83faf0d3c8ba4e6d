/** Files that a command writes: under its name, a file is complete or does not exist. */
import { existsSync, statSync } from 'node:fs';
import path from 'node:path';
import { getSystemErrorMessage } from 'node:util';
import { claim, isSame, publish, sidecarFiles } from '../store/files.ts';
import { sqliteFile } from '../store/open.ts';
import { CommandError, type Context } from './context.ts';

/** Writes a temporary file, which `make` leaves on disk, then renames it to `name`. Replaces an existing file only with `force`. */
export async function replaceFile<Result>(
  context: Context,
  name: string,
  force: boolean | undefined,
  make: (partial: string) => Promise<Result>,
): Promise<Result> {
  const file = targetOf(context, name, force);
  const partial = claim(file);
  const result = await make(partial).catch((error: NodeJS.ErrnoException) => {
    // A write to an open file: the system's error has no path.
    if (error.errno === undefined || error.path !== undefined) throw error;
    throw new CommandError(`${name} cannot be written: ${getSystemErrorMessage(error.errno)}.`);
  });
  publish(partial, file);
  return result;
}

/** The path of a file that a command is about to write. Throws CommandError if it is refused. */
export function targetOf(context: Context, name: string, force: boolean | undefined): string {
  const file = context.resolve(name);
  const url = context.databaseUrl();
  const store = url.startsWith('sqlite:') ? ['', ...sidecarFiles].map((suffix) => sqliteFile(url) + suffix) : [];
  if (store.some((part) => isSame(file, part))) throw new CommandError(`${name} is the store itself.`);
  if (!existsSync(path.dirname(file))) throw new CommandError(`${path.dirname(name)} does not exist.`);
  if (!existsSync(file)) return file;
  if (!statSync(file).isFile()) throw new CommandError(`${name} is not a file.`);
  if (!force) throw new CommandError(`${name} exists already: use --force to replace it.`);
  return file;
}
