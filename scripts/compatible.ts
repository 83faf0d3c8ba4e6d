/** Exits with 1 if an OpenAPI document would break clients of the last release. Optional arguments: the folders of the old and new documents. */
import { readdirSync, readFileSync } from 'node:fs';
import { basename } from 'node:path';
import { fileURLToPath } from 'node:url';
import { apiCompare, breaking } from 'api-smart-diff';
import { parse } from 'yaml';
import { newestOf } from './versions.ts';

/** The breaking changes that the release after `since` makes, as they would be printed. Each must be there. */
const exceptions = [
  {
    since: '1.1.0',
    change:
      'openapi.yaml: add paths › /pets › post › requestBody › content › application/json › schema › properties › name › maxLength',
    because: 'A page of the longest names had 6 MB, and needed limits of its own.',
  },
];

const root = fileURLToPath(new URL('..', import.meta.url));
const last = newestOf(readdirSync(`${root}docs/releases`));
const [base = `${root}docs/releases/${last}`, revision = root] = process.argv.slice(2);
const read = (file: string) => parse(readFileSync(file, 'utf8'));

const changes = ['openapi.yaml', 'openapi.quickstart.yaml'].flatMap((name) =>
  apiCompare(read(`${base}/${name}`), read(`${revision}/${name}`))
    .diffs.filter(({ type }) => type === breaking)
    // A component is compared where an operation uses it: only there is it known to be part of a request or of a response.
    .filter(({ path }) => path[0] !== 'components' || path[1] === 'securitySchemes')
    .map(({ action, path, before, after }) => {
      const values = action === 'replace' ? ` from ${before} to ${after}` : '';
      return `${name}: ${action} ${path.join(' › ')}${values}`;
    }),
);
const accepted = exceptions.filter(({ since }) => since === basename(base));
const faults = [
  ...changes.filter((found) => !accepted.some(({ change }) => change === found)).map((found) => `${found} is breaking`),
  ...accepted.filter(({ change }) => !changes.includes(change)).map(({ change }) => `${change}: no such change`),
];
for (const fault of faults) console.error(fault);
if (faults.length > 0) process.exitCode = 1;
