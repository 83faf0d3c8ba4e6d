/** Plants a bug in a copy of the server, to prove that a test detects it. */
import { cpSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { temporaryFolder } from './app.ts';
import { projectFolder } from './project.ts';

/** Returns the copy's folder, for `startServer({ source })`. `file` is relative to the project; throws unless it contains `from` exactly once. */
export function plant(file: string, from: string, to: string): string {
  const parts = readFileSync(path.join(projectFolder, file), 'utf8').split(from);
  if (parts.length !== 2) throw new Error(`${file} contains ${parts.length - 1} times, not once: ${from}`);
  const copy = temporaryFolder();
  const documents = readdirSync(projectFolder).filter((name) => /^openapi.*\.yaml$/.test(name));
  for (const name of ['src', 'migrations', 'package.json', ...documents])
    cpSync(path.join(projectFolder, name), path.join(copy, name), { recursive: true });
  symlinkSync(path.join(projectFolder, 'node_modules'), path.join(copy, 'node_modules'));
  writeFileSync(path.join(copy, file), parts.join(to));
  return copy;
}
