/** Extracts the renderer of the reference page from its npm package: the version in renderer.json, or the one given as argument. */
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
  /** Integrity of the package, from the registry. */
  integrity: string;
  file: string;
  /** SHA-256 of the file. */
  sha256: string;
}

const at = (name: string) => new URL(`../reference/${name}`, import.meta.url);
const noted: Note = JSON.parse(readFileSync(at('renderer.json'), 'utf8'));
const { name, file } = noted;
const version = process.argv[2] ?? noted.version;
const folder = mkdtempSync(path.join(tmpdir(), 'renderer-'));
try {
  // npm fails if the archive does not match the integrity in the registry.
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
