/** Plants a bug: a copy of the server with one text of its source replaced, to see that a test notices. */
import { cpSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { temporaryFolder } from './app.ts';
import { projectFolder } from './project.ts';

/** Returns the copy's folder, for `startServer({ source })`. Throws unless `file`, from the project's folder on, holds `from` exactly once. */
export function plant(file: string, from: string, to: string): string {
  const parts = readFileSync(path.join(projectFolder, file), 'utf8').split(from);
  if (parts.length !== 2) throw new Error(`${file} holds ${parts.length - 1} times what is to be replaced: ${from}`);
  const copy = temporaryFolder();
  const documents = readdirSync(projectFolder).filter((name) => /^openapi.*\.yaml$/.test(name));
  for (const name of ['src', 'migrations', 'package.json', ...documents])
    cpSync(path.join(projectFolder, name), path.join(copy, name), { recursive: true });
  symlinkSync(path.join(projectFolder, 'node_modules'), path.join(copy, 'node_modules'));
  writeFileSync(path.join(copy, file), parts.join(to));
  return copy;
}
