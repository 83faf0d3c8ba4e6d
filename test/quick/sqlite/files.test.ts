/** Tests of making folders and files. */
import { randomUUID } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { claim, makeFile, makeFolder, publish } from '../../../src/store/files.ts';
import { CopyError } from '../../../src/store/store.ts';
import { temporaryFolder } from '../../support/app.ts';

const modeOf = (name: string) => fs.statSync(name).mode & 0o777;

test('a folder is made with its parents, for this user only', () => {
  const deep = `${temporaryFolder()}/a/b`;
  for (let time = 0; time < 2; time++) makeFolder(deep);
  expect([path.dirname(deep), deep].map(modeOf)).toEqual([0o700, 0o700]);
  fs.writeFileSync(`${deep}/c`, '');
  expect(() => makeFolder(`${deep}/c/d`)).toThrow('ENOTDIR');
});

test('a file is made completely or not at all, and closed in both cases', async () => {
  const file = `${temporaryFolder()}/made`;
  const descriptors: number[] = [];
  const write = async (descriptor: number) => {
    descriptors.push(descriptor);
    fs.writeSync(descriptor, 'new');
    return 3;
  };
  expect(await makeFile(file, 0o640, write)).toBe(3);
  expect([fs.readFileSync(file, 'utf8'), modeOf(file)]).toEqual(['new', 0o640]);
  fs.rmSync(file);
  const failed = makeFile(file, 0o640, (descriptor) => write(descriptor).then(() => Promise.reject(new Error('full'))));
  await expect(failed).rejects.toThrow(new Error('full'));
  expect(fs.existsSync(file)).toBe(false);
  // The number is free again.
  expect(descriptors[1]).toBe(descriptors[0]);
});

test('what killed processes have left is removed, and nothing else', () => {
  const folder = temporaryFolder();
  const id = randomUUID();
  const kept = ['made', 'made.partial-notes', `made.partial-${id}-notes`, `other.partial-${id}`];
  for (const name of [...kept, `made.partial-${id}`, `made.partial-${id}-journal`])
    fs.writeFileSync(`${folder}/${name}`, '');
  claim(`${folder}/made`);
  expect(fs.readdirSync(folder).sort()).toEqual(kept.sort());
});

test('of two that make the same file, the later one stays, and the earlier one rejects', async () => {
  const file = `${temporaryFolder()}/made`;
  const first = claim(file);
  let second = '';
  const earlier = makeFile(first, 0o600, async () => {
    second = claim(file);
    await makeFile(second, 0o600, async (descriptor) => void fs.writeSync(descriptor, 'later'));
    throw new Error('disk I/O error');
  });
  await expect(earlier).rejects.toThrow(
    new CopyError(`Another command writes the same file: it has removed ${first}.`),
  );
  publish(second, file);
  expect(() => publish(first, file)).toThrow('ENOENT');
  expect(fs.readFileSync(file, 'utf8')).toBe('later');
});
