/** Tests of making folders and files. */
import fs from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { makeFile, makeFolder } from '../../../src/store/files.ts';
import { temporaryFolder } from '../../support/app.ts';

const modeOf = (name: string) => fs.statSync(name).mode & 0o777;

test('a folder is made with its parents, for this user only', () => {
  const deep = `${temporaryFolder()}/a/b`;
  for (let time = 0; time < 2; time++) makeFolder(deep, expect.fail);
  expect([path.dirname(deep), deep].map(modeOf)).toEqual([0o700, 0o700]);
  fs.writeFileSync(`${deep}/c`, '');
  expect(() => makeFolder(`${deep}/c/d`, expect.fail)).toThrow('ENOTDIR');
});

test('a file is made completely or not at all, and closed in both cases', async () => {
  const file = `${temporaryFolder()}/made`;
  const descriptors: number[] = [];
  const write = async (_partial: string, descriptor: number) => {
    descriptors.push(descriptor);
    fs.writeSync(descriptor, 'new');
    return 3;
  };
  const place = (partial: string) => fs.renameSync(partial, file);
  expect(await makeFile(file, 0o640, expect.fail, write, place)).toBe(3);
  expect([fs.readFileSync(file, 'utf8'), modeOf(file)]).toEqual(['new', 0o640]);
  fs.rmSync(file);
  const fail = async (...given: Parameters<typeof write>) => {
    await write(...given);
    throw new Error('full');
  };
  const failed = makeFile(file, 0o640, expect.fail, fail, place);
  await expect(failed).rejects.toThrow(new Error('full'));
  expect(fs.readdirSync(path.dirname(file))).toEqual([]);
  // The number is free again.
  expect(descriptors[1]).toBe(descriptors[0]);
});
