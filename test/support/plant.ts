/** Copies of the source that a test can change, such as to plant a bug that a test must detect. */
import { cpSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { temporaryFolder } from './app.ts';
import { projectFolder } from './project.ts';

/** Copies the source, its packages by a link, into a new folder: for `startServer({ source })`. */
export function copySource(): string {
  const copy = temporaryFolder();
  const documents = readdirSync(projectFolder).filter((name) => /^openapi.*\.yaml$/.test(name));
  for (const name of ['src', 'migrations', 'package.json', ...documents])
    cpSync(path.join(projectFolder, name), path.join(copy, name), { recursive: true });
  symlinkSync(path.join(projectFolder, 'node_modules'), path.join(copy, 'node_modules'));
  return copy;
}

/** Changes a file of a copy. `file` is relative to `folder`; throws unless it contains `from` exactly once. */
function change(folder: string, file: string, from: string, to: string): void {
  const parts = readFileSync(path.join(folder, file), 'utf8').split(from);
  if (parts.length !== 2) throw new Error(`${file} contains ${parts.length - 1} times, not once: ${from}`);
  writeFileSync(path.join(folder, file), parts.join(to));
}

/** Returns the folder of a changed copy. */
export function plant(file: string, from: string, to: string): string {
  const copy = copySource();
  change(copy, file, from, to);
  return copy;
}
