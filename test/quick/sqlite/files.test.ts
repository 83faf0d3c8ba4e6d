/** Tests why a file cannot be used. The superuser, who may run the tests, is denied nothing: fs.accessSync denies what a test says. */
import fs from 'node:fs';
import path from 'node:path';
import { afterEach, expect, test, vi } from 'vitest';
import { makeFile, makeFolder, obstacleTo } from '../../../src/store/files.ts';
import { temporaryFolder } from '../../support/app.ts';

afterEach(() => vi.restoreAllMocks());

/** Denies the access `mode` to `place`. */
function deny(place: string, mode: number, code = 'EACCES'): void {
  vi.spyOn(fs, 'accessSync').mockImplementation((asked, wanted) => {
    if (asked === place && wanted === mode) throw Object.assign(new Error('denied'), { code });
  });
}

const { R_OK, W_OK, X_OK } = fs.constants;

test('a file that exists must be readable and writable, and its folder writable', () => {
  const folder = temporaryFolder();
  const file = path.join(folder, 'store.db');
  fs.writeFileSync(file, '');
  expect(obstacleTo(file)).toBeUndefined();
  deny(file, R_OK);
  expect(obstacleTo(file)).toBe(`this user may not read ${file}`);
  deny(file, W_OK);
  expect(obstacleTo(file)).toBe(`this user may not write ${file}`);
  deny(folder, W_OK);
  expect(obstacleTo(file)).toBe(`this user may not write to ${folder}`);
  deny(folder, W_OK, 'EROFS');
  expect(obstacleTo(file)).toBe(`${folder} is on a read-only file system`);
});

test('where it is to be created, the nearest folder that exists must allow that', () => {
  const folder = temporaryFolder();
  const deep = path.join(folder, 'a', 'b', 'store.db');
  expect(obstacleTo(path.join(folder, 'store.db'))).toBeUndefined();
  // Nothing denies it, so whoever asks has failed to create it.
  expect(obstacleTo(deep)).toBe(`no folder can be created in ${folder}`);
  deny(folder, X_OK);
  expect(obstacleTo(deep)).toBe(`this user may not open ${folder}`);
  deny(folder, W_OK);
  expect(obstacleTo(deep)).toBe(`this user may not write to ${folder}`);
  fs.writeFileSync(path.join(folder, 'a'), '');
  expect(obstacleTo(deep)).toBe(`${path.join(folder, 'a')} is not a folder`);
});

test('a folder is made with its parents, for this user only; a file in its place is an error', () => {
  const folder = temporaryFolder();
  const deep = path.join(folder, 'a', 'b');
  makeFolder(deep);
  makeFolder(deep);
  expect(fs.statSync(deep).mode & 0o777).toBe(0o700);
  fs.writeFileSync(path.join(folder, 'c'), '');
  expect(() => makeFolder(path.join(folder, 'c'))).toThrow('EEXIST');
});

test('of two that make the same file, one fails, and neither leaves a part of it', async () => {
  const file = path.join(temporaryFolder(), 'backup.db');
  const slow = Promise.withResolvers<void>();
  const first = makeFile(file, 0o600, async () => slow.promise);
  const second = makeFile(file, 0o600, async (descriptor) => void fs.writeSync(descriptor, 'second'));
  await second;
  slow.resolve();
  await expect(first).rejects.toThrow('Another process is also writing');
  expect(fs.readFileSync(file, 'utf8')).toBe('second');
  await expect(makeFile(file, 0o600, () => Promise.reject(new Error('full')))).rejects.toThrow('full');
  expect(fs.existsSync(file)).toBe(false);
});
