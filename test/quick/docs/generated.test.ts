/** Tests that every derived file is up to date. */
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { sourceLine, typesFile } from '../../../scripts/client.ts';
import { generateFiles } from '../../../scripts/generate.ts';
import { projectFolder } from '../../support/project.ts';

const files = await generateFiles();
const read = (name: string) => readFileSync(path.join(projectFolder, name), 'utf8');
const stale = (name: string) => `${name} is not up to date: run npm run generate`;

test.each(Object.keys(files))('%s is up to date', (name) => {
  expect(read(name), stale(name)).toBe(files[name]);
});

test(`${typesFile} is generated from the current openapi.yaml`, () => {
  expect(read(typesFile).slice(0, 200), stale(typesFile)).toContain(sourceLine(read('openapi.yaml')));
});
