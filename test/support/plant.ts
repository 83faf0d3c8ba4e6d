/** Copies of the source that a test can change, such as to plant a bug that a test must detect. */
import { cpSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { temporaryFolder } from './app.ts';
import { projectFolder } from './project.ts';

/** Copies the files and folders whose path in the project is chosen, and the packages by a link, into a new folder. */
function copy(isChosen: (name: string) => boolean) {
  const folder = temporaryFolder();
  const filter = (file: string) => isChosen(path.relative(projectFolder, file));
  cpSync(projectFolder, folder, { recursive: true, filter });
  symlinkSync(`${projectFolder}node_modules`, `${folder}/node_modules`);
  return folder;
}

const left = ['node_modules', '.git', '.env', 'data', 'coverage', 'screenshots'];

/** Copies the whole project, with the tests. */
export const copyProject = () => copy((name) => !left.includes(name));

/** Copies the source: for `startServer({ source })`. */
export const copySource = () =>
  copy((name) => /^($|(src|migrations|package\.json|openapi[^/]*\.yaml)($|\/))/.test(name));

/** Returns the folder of a copy whose `file` is changed. Throws unless it contains `from` exactly once. */
export function plant(file: string, from: string, to: string) {
  const folder = copySource();
  const parts = readFileSync(`${folder}/${file}`, 'utf8').split(from);
  if (parts.length !== 2) throw new Error(`${file} contains ${parts.length - 1} times, not once: ${from}`);
  writeFileSync(`${folder}/${file}`, parts.join(to));
  return folder;
}
