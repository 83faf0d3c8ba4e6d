/** Tests that what the documents and the planted bugs name exists, and that they have the date of the removal. */
import { existsSync, globSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { sunset } from '../../../src/core/deprecation.ts';
import { projectFolder, read } from '../../support/project.ts';
import { plantedBugs } from '../../system/harness/planted-bugs.ts';

const cwd = projectFolder;
const documents = globSync(['*.md', '{docs,deploy,examples,.github}/**/*.md'], { cwd });

/** The anchors of the headings of a document, as GitHub makes them. */
const anchorsIn = (text: string) =>
  [...text.matchAll(/^#+ (.+)$/gm)].map(([, heading = '']) =>
    heading
      .toLowerCase()
      .replace(/[^\w\- ]/g, '')
      .replaceAll(' ', '-'),
  );

test('every relative link leads to a file and its heading', () => {
  const links = documents.flatMap((file) =>
    [...read(file).matchAll(/\]\((?!\w+:)([^)#\s]*)(?:#([^)\s]+))?\)/g)].map(([link, target = '', anchor]) => {
      return { file, link, target: target ? path.join(path.dirname(file), target) : file, anchor };
    }),
  );
  expect(links.length).toBeGreaterThan(100);
  const broken = links.filter(({ target, anchor }) => {
    if (!existsSync(path.join(cwd, target))) return true;
    return anchor !== undefined && !anchorsIn(read(target)).includes(anchor);
  });
  expect(broken).toEqual([]);
});

test('every test that proves a promise, or that another file names, exists', () => {
  const rows = read('docs/promises.md').match(/[^|]+(?= \|$)/gm) ?? [];
  const names = rows.flatMap((cell) => cell.match(/(?<=`)[\w/-]+(?=`)/g) ?? []);
  expect(names.length).toBeGreaterThan(80);
  const files = globSync('{src,test}/**/*.ts', { cwd });
  names.push(...files.flatMap((file) => read(file).match(/\b(?!test\/)[\w/-]+\.test(?=\.ts)/g) ?? []));
  expect(names.filter((name) => globSync(`test/**/${name}{,.ts,.test.ts}`, { cwd }).length === 0)).toEqual([]);
});

test('each planted bug replaces a text that is in its file', () => {
  expect(plantedBugs.filter(([, file, from]) => !read(file).includes(from)).map(([name]) => name)).toEqual([]);
});

test('the date of the removal is the same everywhere', () => {
  const files = ['README.md', '.env.example', 'deploy/grafana/dashboard.json'];
  const dates = files.flatMap((file) => read(file).match(/\d{1,2} [A-Z][a-z]+ 203\d/g) ?? []);
  expect(new Set(dates.map((text) => Date.parse(`${text} UTC`)))).toEqual(new Set([sunset.getTime()]));
});
