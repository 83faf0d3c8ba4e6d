/** The command that writes all animals to a file or to stdout, as JSON lines. */
import { writeFileSync } from 'node:fs';
import { pipeline } from 'node:stream/promises';
import { setImmediate } from 'node:timers/promises';
import { type Command, Option } from 'commander';
import { maxPage, type PetStatus, statuses } from '../core/pets.ts';
import { makeFile } from '../store/files.ts';
import type { Store } from '../store/store.ts';
import type { Context } from './context.ts';
import { animals } from './output.ts';
import { replaceFile } from './output-file.ts';

interface ExportOptions {
  status?: PetStatus;
  force?: boolean;
}

export function exportCommand(program: Command, context: Context): void {
  program
    .command('export')
    .description('write all animals as JSON lines, in ascending order of id')
    .argument('[file]', 'the file to write; - is standard output', '-')
    .addOption(new Option('--status <status>', 'only animals with this status').choices(statuses))
    .option('--force', 'replace the file if it exists')
    .action(async (file: string, { status, force }: ExportOptions) => {
      const count = await context.withStore((store) => {
        const write = (consume: Consume) => writePets(context, store, status, consume);
        if (file === '-') return write((texts) => pipeline(texts, context.stdout, { end: false }));
        return replaceFile(context, file, force, (partial) =>
          makeFile(partial, 0o666, (descriptor) => write((texts) => writeTo(descriptor, texts))),
        );
      });
      context.note(`Exported ${animals(count)}.`);
    });
}

type Consume = (texts: AsyncIterable<string>) => Promise<void>;

/** Returns the number of animals. */
function writePets({ withProgress }: Context, { pets }: Store, status: PetStatus | undefined, consume: Consume) {
  return withProgress('Exporting', 'animals', async ({ visible, show }) => {
    let count = 0;
    async function* texts(): AsyncGenerator<string> {
      const lastId = visible ? await pets.lastId() : 0;
      for (let after: bigint | undefined = 0n; after !== undefined; ) {
        const page = await pets.list({ limit: maxPage, status, after });
        count += page.pets.length;
        after = page.next;
        show(Number(after ?? lastId), lastId, count);
        yield page.pets.map((pet) => `${pet}\n`).join('');
        // SQLite's reads of one turn of the event loop share a snapshot, which would hold up checkpoints.
        await setImmediate();
      }
    }
    await consume(texts());
    return count;
  });
}

/** Not a stream, which would close the descriptor on an error. */
async function writeTo(descriptor: number, texts: AsyncIterable<string>): Promise<void> {
  for await (const text of texts) writeFileSync(descriptor, text);
}
