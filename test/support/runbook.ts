/** Reads the commands of a document, so that a test runs what an operator copies. */
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { projectFolder } from './project.ts';

export interface Runbook {
  /** The only block that contains the text; throws if there are several, or none. */
  block: (text: string) => string;
  /** The blocks that were not asked for. */
  rest: () => string[];
}

/** Reads the blocks of shell commands in a Markdown file; `name` is relative to the project. */
export function readRunbook(name: string): Runbook {
  const text = readFileSync(path.join(projectFolder, name), 'utf8');
  const blocks = [...text.matchAll(/^```sh\n([\s\S]*?)^```$/gm)].map(([, block]) => block as string);
  const asked = new Set<string>();
  return {
    block(part) {
      const found = blocks.filter((block) => block.includes(part));
      if (found.length !== 1) throw new Error(`${found.length} blocks of ${name} contain ${part}`);
      const [block] = found as [string];
      asked.add(block);
      return block;
    },
    rest: () => blocks.filter((block) => !asked.has(block)),
  };
}
