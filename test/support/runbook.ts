/** Reads the commands of a document, so that a test runs what an operator copies. */
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { projectFolder } from './project.ts';

/** Reads the blocks of shell commands in a Markdown file; `name` is relative to the project. */
export function readRunbook(name: string) {
  const text = readFileSync(path.join(projectFolder, name), 'utf8');
  const blocks = [...text.matchAll(/^```sh\n([\s\S]*?)^```$/gm)].map(([, block]) => block as string);
  const asked = new Set<string>();
  return {
    /** The only block that contains the text; throws if there are several, or none. */
    block(part: string): string {
      const [block, ...others] = blocks.filter((block) => block.includes(part));
      if (block === undefined || others.length > 0) throw new Error(`not one block of ${name} contains ${part}`);
      asked.add(block);
      return block;
    },
    /** The blocks that were not asked for. */
    rest: () => blocks.filter((block) => !asked.has(block)),
  };
}
