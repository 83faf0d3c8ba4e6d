/** Generates examples/animal-store.d.ts, the types of the typed client, from openapi.yaml. */
import { execFileSync } from 'node:child_process';
import { hash } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';

export const typesFile = 'examples/animal-store.d.ts';

/** The first line of the types: it names the document that they come from. */
export const sourceLine = (document: string) => `// openapi.yaml with the SHA-256 ${hash('sha256', document)}\n`;

// npm downloads these temporarily: the generator needs an older TypeScript than the one that checks this project.
const packages = ['openapi-typescript@7.13.0', 'typescript@5.9.3'].map((name) => `--package=${name}`);

/** The types for a document, which `root` has as openapi.yaml. Throws if npm cannot download the generator. */
export function clientTypes(root: string, document: string): string {
  // In a folder of its own: the generator would apply the rules of this project's redocly.yaml.
  const cwd = mkdtempSync(path.join(tmpdir(), 'animal-store-'));
  const written = path.join(cwd, 'types.d.ts');
  const options = ['--default-non-nullable', 'false', '--output', written];
  try {
    const command = ['openapi-typescript', path.join(root, 'openapi.yaml'), ...options];
    execFileSync('npm', ['exec', '--yes', '--ignore-scripts', ...packages, '--', ...command], { cwd });
    return sourceLine(document) + readFileSync(written, 'utf8');
  } finally {
    rmSync(cwd, { recursive: true });
  }
}
