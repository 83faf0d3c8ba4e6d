/** Tests that the links of the documents, and the documents that other files name, exist. */
import { existsSync, globSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { read } from '../../support/deployment.ts';
import { projectFolder } from '../../support/project.ts';

const cwd = projectFolder;
const documents = globSync(['*.md', '{docs,deploy,examples,.github}/**/*.md'], { cwd });

/** The anchor of a heading, as GitHub makes it. */
const anchorOf = (heading: string) =>
  heading
    .toLowerCase()
    .replace(/[^\w\- ]/g, '')
    .replaceAll(' ', '-');

const anchorsIn = (text: string) => [...text.matchAll(/^#+ (.+)$/gm)].map(([, heading = '']) => anchorOf(heading));

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

test('every document that code, settings or the changelog name exists', () => {
  const places = [
    '{src,scripts,deploy,test,bench,migrations}/**/*.{ts,eta,yml,yaml,sql,conf,service,mjs}',
    '*.md',
    '.env.example',
  ];
  const named = globSync(places, { cwd }).flatMap((file) =>
    [...read(file).matchAll(/(?<![\w/])docs\/[a-z/-]+\.md/g)].map(([name]) => ({ file, name })),
  );
  expect(named.length).toBeGreaterThan(30);
  expect(named.filter(({ name }) => !existsSync(path.join(cwd, name)))).toEqual([]);
});

test('docs/production.md names only files of the project', () => {
  const names = [...read('docs/production.md').matchAll(/(?<![\w/])(?:deploy|src)\/[\w/.*-]+/g)].map(([name]) => name);
  expect(names.length).toBeGreaterThan(4);
  for (const name of names) expect(globSync(name, { cwd }).length, name).toBeGreaterThan(0);
});
