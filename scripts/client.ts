/** Generates examples/animal-store.d.ts, the types of the typed client, from openapi.yaml. */
import { execFileSync } from 'node:child_process';
import { hash } from 'node:crypto';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const written = `${root}examples/animal-store.d.ts`;
// npm downloads these temporarily: the generator needs an older TypeScript than the one that checks this project.
const packages = ['openapi-typescript@7.13.0', 'typescript@5.9.3'].map((name) => `--package=${name}`);
const file = `${root}openapi.yaml`;
rmSync(written, { force: true });
execFileSync(
  'npm',
  [
    'exec',
    '--yes',
    ...packages,
    '--',
    'openapi-typescript',
    file,
    '--default-non-nullable',
    'false',
    '--output',
    written,
  ],
  {
    cwd: root,
  },
);
const source = `// openapi.yaml with the SHA-256 ${hash('sha256', readFileSync(file))}\n`;
writeFileSync(written, source + readFileSync(written, 'utf8'));
