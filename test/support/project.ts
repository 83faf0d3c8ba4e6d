/** The project's folder, and the options of `npm start`. */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

export const projectFolder = fileURLToPath(new URL('../../', import.meta.url));

/** The options that `npm start` passes to node. */
const { scripts } = JSON.parse(readFileSync(`${projectFolder}package.json`, 'utf8'));
export const nodeOptions: string[] = /^exec node (.+) src\/main\.ts /.exec(scripts.start)?.[1]?.split(' ') as string[];
