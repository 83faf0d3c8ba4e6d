/** The project's folder and files, and the options of `npm start`. */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

export const projectFolder = fileURLToPath(new URL('../../', import.meta.url));

/** The text of a file of the project. */
export const read = (file: string) => readFileSync(projectFolder + file, 'utf8');

/** The blocks of code of a page, without their indentation. `language`: as a regular expression. */
export const blocksOf = (page: string, language = '\\w+') =>
  [...page.matchAll(new RegExp(`^( *)\`\`\`${language}\\n([\\s\\S]*?)^\\1\`\`\`$`, 'gm'))].map(
    ([, indent, block = '']) => block.replaceAll(new RegExp(`^${indent}`, 'gm'), ''),
  );

/** PATH, which leads to this Node first. */
export const pathToNode = `${path.dirname(process.execPath)}:${process.env.PATH}`;

const manifest = JSON.parse(read('package.json'));

export const { version } = manifest;

/** The options that `npm start` passes to node. */
export const nodeOptions: string[] = createRequire(import.meta.url)('../../src/start.cjs').options;
