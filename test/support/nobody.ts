/** Command lines that run a program as a user whom permissions bind, unlike root. */
import { spawnSync } from 'node:child_process';
import type { TestContext } from 'vitest';
import { projectFolder } from './project.ts';

export const asNobody = process.getuid?.() === 0 ? ['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups'] : [];

const [file = '', ...args] = [...asNobody, 'test', '-r', `${projectFolder}src/cli.ts`];
const isBound = spawnSync(file, args).status === 0;

/** Skips the test if no such user can run the project. */
export function needNobody({ skip }: Pick<TestContext, 'skip'>) {
  skip(!isBound, 'no other user can run the project');
}
