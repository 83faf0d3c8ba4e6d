/** Exits with 1 if an OpenAPI document would break clients of the last release. Optional arguments: the folders of the old and new documents. */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { apiCompare, breaking } from 'api-smart-diff';
import { parse } from 'yaml';

const root = fileURLToPath(new URL('..', import.meta.url));
const [base = `${root}docs/releases`, revision = root] = process.argv.slice(2);
const read = (file: string) => parse(readFileSync(file, 'utf8'));

const faults = ['openapi.yaml', 'openapi.quickstart.yaml'].flatMap((name) =>
  apiCompare(read(`${base}/${name}`), read(`${revision}/${name}`))
    // A removed member breaks those who read it, or send it.
    .diffs.filter(
      ({ type, action, path }) => type === breaking || (action === 'remove' && path.at(-2) === 'properties'),
    )
    // A component is compared where an operation uses it: only there is it known to be part of a request or of a response.
    .filter(({ path }) => path[0] !== 'components' || path[1] === 'securitySchemes')
    .map(({ action, path, before, after }) => {
      const values = action === 'replace' ? ` from ${before} to ${after}` : '';
      return `${name}: ${action} ${path.join(' › ')}${values} is breaking`;
    }),
);
for (const fault of faults) console.error(fault);
if (faults.length > 0) process.exitCode = 1;
