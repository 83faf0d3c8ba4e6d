/** Files that a command makes: whole under their name, or not there at all. */
import { existsSync, renameSync, statSync } from 'node:fs';
import path from 'node:path';
import { sync } from '../repository/files.ts';
import { companions } from '../repository/sqlite-copy.ts';
import { isSame } from '../repository/sqlite-restore.ts';
import { Refusal, storeFile } from './store.ts';

/** Has a file made beside `file`, whole and on disk, that then takes its name. A file that is there already is replaced with `force` only. */
export async function replaceFile<Result>(
  file: string,
  force: boolean | undefined,
  make: (partial: string) => Promise<Result>,
): Promise<Result> {
  refuse(file, force);
  const partial = `${file}.partial`;
  const result = await make(partial);
  renameSync(partial, file);
  sync(path.dirname(file));
  return result;
}

function refuse(file: string, force: boolean | undefined): void {
  const store = storeFile();
  for (const part of [store, ...companions.map((suffix) => store + suffix)])
    if (isSame(file, part)) throw new Refusal(`${file} is the store itself.`);
  if (!existsSync(file)) return;
  if (!statSync(file).isFile()) throw new Refusal(`${file} is not a file.`);
  if (!force) throw new Refusal(`${file} exists already: use --force to replace it.`);
}
