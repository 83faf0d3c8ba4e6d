/** Tests of making folders and files. */
import fs from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { makeFile, makeFolder } from '../../../src/store/files.ts';
import { CopyError } from '../../../src/store/store.ts';
import { temporaryFolder } from '../../support/app.ts';

test('a folder is made with its parents, for this user only', () => {
  const folder = temporaryFolder();
  const deep = path.join(folder, 'a', 'b');
  makeFolder(deep);
  makeFolder(deep);
  expect(fs.statSync(path.dirname(deep)).mode & 0o777).toBe(0o700);
  expect(fs.statSync(deep).mode & 0o777).toBe(0o700);
  fs.writeFileSync(path.join(folder, 'c'), '');
  expect(() => makeFolder(path.join(folder, 'c', 'd'))).toThrow('ENOTDIR');
});

const inode = (descriptor: number) => {
  try {
    return fs.fstatSync(descriptor).ino;
  } catch {
    return undefined;
  }
};

test('a file is made completely or not at all, and closed in both cases', async () => {
  const file = path.join(temporaryFolder(), 'made');
  for (const suffix of ['', '-journal', '-wal', '-shm'])
    fs.writeFileSync(file + suffix, 'left by a process that was killed');
  let made: [descriptor: number, inode: number | undefined] | undefined;
  const write = async (descriptor: number) => {
    expect(fs.readdirSync(path.dirname(file))).toEqual(['made']);
    made = [descriptor, inode(descriptor)];
    fs.writeSync(descriptor, 'new');
    return 3;
  };
  expect(await makeFile(file, 0o640, write)).toBe(3);
  expect([fs.readFileSync(file, 'utf8'), fs.statSync(file).mode & 0o777]).toEqual(['new', 0o640]);
  expect(fs.statSync(file).ino).toBe(made?.[1]);
  expect(inode(made?.[0] as number)).not.toBe(made?.[1]);

  const failed = makeFile(file, 0o640, (descriptor) => write(descriptor).then(() => Promise.reject(new Error('full'))));
  await expect(failed).rejects.toThrow(new Error('full'));
  expect(fs.existsSync(file)).toBe(false);
  expect(inode(made?.[0] as number)).not.toBe(made?.[1]);
});

test('of two that make the same file, the later one stays, and the earlier one rejects', async () => {
  const file = path.join(temporaryFolder(), 'made');
  const first = Promise.withResolvers<void>();
  const earlier = makeFile(file, 0o600, () => first.promise);
  await makeFile(file, 0o600, async (descriptor) => void fs.writeSync(descriptor, 'later'));
  first.resolve();
  await expect(earlier).rejects.toThrow(new CopyError(`Another process is also writing to ${file}.`));
  expect(fs.readFileSync(file, 'utf8')).toBe('later');
});
