/** Writes every file, or part of a file, that is derived from the sources. Tests compare them, and name this command. */
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { generateDocuments } from './openapi.ts';
import { pageNames, renderChangelog, renderNotFound, renderPage } from './reference.ts';
import { exampleFile, settingRows } from './settings.ts';

const root = path.resolve(import.meta.dirname, '..');
const read = (name: string) => readFileSync(path.join(root, name), 'utf8');

/** The file with the part that matches `pattern` replaced. Throws unless there is one. */
function withPart(name: string, pattern: RegExp, part: string): string {
  const text = read(name);
  if (!pattern.test(text)) throw new Error(`${name} must match ${pattern}.`);
  return text.replace(pattern, () => part);
}

/** A page whose last part is a table. */
const withRows = (name: string, rows: string) => ({
  [name]: withPart(name, /(?<=\n(?:\|---)+\|\n)[\s\S]*/, `${rows}\n`),
});

/** The tag and the digest of the image. The digest of another version would be pulled in its place: zeros are refused. */
function imageOf(version: string, text: string): string {
  const [, tag = '', digest = ''] = /newTag: (.*)\n +digest: sha256:([0-9a-f]{64})\n$/.exec(text) ?? [];
  return `${version}\n    digest: sha256:${tag === version ? digest : '0'.repeat(64)}\n`;
}

/** The files that name the version of package.json. */
function namingVersion(): Record<string, string> {
  const { version } = JSON.parse(read('package.json')) as { version: string };
  const image = 'deploy/kubernetes/image/kustomization.yaml';
  const job = 'deploy/kubernetes/postgres/migration-job.yaml';
  return {
    Dockerfile: withPart('Dockerfile', /(?<=image\.version=")[^"]*/, version),
    [job]: withPart(job, /(?<=^ {2}name: animal-store-migrate-)[\d-]+/m, version.replaceAll('.', '-')),
    [image]: withPart(image, /(?<=^ +newTag: )[\s\S]*/m, imageOf(version, read(image))),
  };
}

/** What each derived file should contain, by its name. */
export async function generateFiles(): Promise<Record<string, string>> {
  const documents = await generateDocuments();
  const sources = { 'animal-store.html': 'openapi.yaml', 'quickstart.html': 'openapi.quickstart.yaml' } as const;
  const pages = pageNames.map((name) => [`src/pages/reference/${name}`, renderPage(name, documents[sources[name]])]);
  return {
    ...documents,
    ...Object.fromEntries(pages),
    'src/pages/reference/changelog.html': renderChangelog(),
    'src/pages/reference/not-found.html': renderNotFound(),
    '.env.example': exampleFile(),
    ...withRows('docs/settings.md', settingRows),
    ...namingVersion(),
  };
}

function write(name: string, text: string): void {
  if (text === read(name)) return;
  writeFileSync(path.join(root, name), text);
  console.log(`Wrote ${name}.`);
}

if (import.meta.main) {
  for (const [name, text] of Object.entries(await generateFiles())) write(name, text);
}
