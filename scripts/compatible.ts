/** Exits with 1 if an OpenAPI document would break clients of the last release. Optional arguments: the folders of the old and new documents. */
import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { apiCompare, breaking } from 'api-smart-diff';
import { parse } from 'yaml';

const root = fileURLToPath(new URL('..', import.meta.url));
const releases = readdirSync(`${root}docs/releases`).filter((name) => /^\d+\.\d+\.\d+$/.test(name));
const last = releases.sort((a, b) => a.localeCompare(b, 'en', { numeric: true })).at(-1);
const [base = `${root}docs/releases/${last}`, revision = root] = process.argv.slice(2);
const read = (file: string) => parse(readFileSync(file, 'utf8'));

for (const name of ['openapi.yaml', 'openapi.quickstart.yaml']) {
  const { diffs } = apiCompare(read(`${base}/${name}`), read(`${revision}/${name}`));
  for (const { type, action, path } of diffs.filter((diff) => diff.type === breaking)) {
    console.error(`${name}: ${action} ${path.join(' › ')} is ${type}`);
    process.exitCode = 1;
  }
}
