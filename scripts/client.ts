/** Generates examples/animal-store.d.ts, the types of the typed client, from openapi.yaml. */
import { execFileSync } from 'node:child_process';
import { hash } from 'node:crypto';
import { readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';

export const typesFile = 'examples/animal-store.d.ts';

/** The first line of the types: it names the document that they come from. */
export const sourceLine = (document: string) => `// openapi.yaml with the SHA-256 ${hash('sha256', document)}\n`;

// npm downloads these temporarily: the generator needs an older TypeScript than the one that checks this project.
const packages = ['openapi-typescript@7.13.0', 'typescript@5.9.3'].map((name) => `--package=${name}`);

/** The types for a document, which `root` has as openapi.yaml. Throws if npm cannot download the generator. */
export function clientTypes(root: string, document: string): string {
  const written = path.join(tmpdir(), `animal-store-${process.pid}.d.ts`);
  const options = ['--default-non-nullable', 'false', '--output', written];
  try {
    execFileSync('npm', ['exec', '--yes', ...packages, '--', 'openapi-typescript', 'openapi.yaml', ...options], {
      cwd: root,
    });
    return sourceLine(document) + readFileSync(written, 'utf8');
  } finally {
    rmSync(written, { force: true });
  }
}
