/** Where the project lies, and how `npm start` starts it. */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

export const projectFolder = fileURLToPath(new URL('../../', import.meta.url));

/** What `npm start` says to node itself. */
const { scripts } = JSON.parse(readFileSync(`${projectFolder}package.json`, 'utf8'));
export const nodeOptions: string[] = scripts.start.split(' ').slice(1, -1);
