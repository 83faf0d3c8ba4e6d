/** Takes the renderer of the reference page out of its package: the noted version again, or the one that is named. */
import { execFileSync } from 'node:child_process';
import { hash } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { gzipSync } from 'node:zlib';

interface Note {
  name: string;
  version: string;
  license: string;
  /** Of the package, as the registry gives it. */
  integrity: string;
  file: string;
  /** Of the file. */
  sha256: string;
}

const at = (name: string) => new URL(`../reference/${name}`, import.meta.url);
const noted: Note = JSON.parse(readFileSync(at('renderer.json'), 'utf8'));
const { name, file } = noted;
const version = process.argv[2] ?? noted.version;
const folder = mkdtempSync(path.join(tmpdir(), 'renderer-'));
try {
  // Fails where the archive is not what the registry says it is.
  const output = execFileSync('npm', ['pack', `${name}@${version}`, '--json', '--pack-destination', folder]);
  const [{ filename, integrity }] = JSON.parse(output.toString());
  if (version === noted.version && integrity !== noted.integrity) throw new Error(`${name}@${version} has changed.`);
  execFileSync('tar', ['-xzf', path.join(folder, filename), '-C', folder]);
  const { license } = JSON.parse(readFileSync(path.join(folder, 'package/package.json'), 'utf8'));
  const bytes = readFileSync(path.join(folder, 'package', file));
  const note: Note = { name, version, license, integrity, file, sha256: hash('sha256', bytes) };
  writeFileSync(at('renderer.js.gz'), gzipSync(bytes, { level: 9 }));
  writeFileSync(at('renderer.json'), `${JSON.stringify(note, null, 2)}\n`);
} finally {
  rmSync(folder, { recursive: true });
}
