/** The command that writes all animals to a file or to stdout. */
import { createWriteStream } from 'node:fs';
import type { Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { type Command, Option } from 'commander';
import { writeCsv } from '../csv.ts';
import { type PetStatus, statuses } from '../pets.ts';
import { makeFile } from '../repository/files.ts';
import { type Export, openExport, type PetRow } from '../repository/sqlite/export.ts';
import { columns, type Format, formatOf, formatOption } from './arguments.ts';
import { type Context, now } from './context.ts';
import { animals } from './output.ts';
import { replaceFile } from './output-file.ts';

interface ExportOptions {
  format?: Format;
  status?: PetStatus;
  force?: boolean;
}

export function exportCommand(program: Command, context: Context): void {
  program
    .command('export')
    .description('write all animals, in ascending order of id')
    .argument('[file]', 'the file to write; - is standard output', '-')
    .addOption(formatOption())
    .addOption(new Option('--status <status>', 'only animals with this status').choices(statuses))
    .option('--force', 'replace the file if it exists')
    .action(async (file: string, { format: given, status, force }: ExportOptions) => {
      const source = openExport(context.storeFile(), status, { now });
      const format = formatOf(file, given);
      try {
        const count = await (file === '-'
          ? write(context, source, format, context.stdout, { end: false })
          : replaceFile(context, file, force, (partial) =>
              makeFile(partial, 0o666, (descriptor) => {
                const output = createWriteStream('', { fd: descriptor, autoClose: false });
                return write(context, source, format, output, { end: true });
              }),
            ));
        context.note(`Exported ${animals(count)}.`);
      } finally {
        source.close();
      }
    });
}

function write(
  { withProgress }: Context,
  source: Export,
  format: Format,
  output: Writable,
  options: { end: boolean },
): Promise<number> {
  return withProgress('Exporting', 'animals', async (progress) => {
    let count = 0;
    function* texts(): Generator<string> {
      const total = progress.visible ? source.count() : 0;
      if (format === 'csv') yield writeCsv(columns);
      for (const rows of source.pages()) {
        count += rows.length;
        progress.show(count, total);
        yield rows.map(textOf[format]).join('');
      }
    }
    await pipeline(texts, output, options);
    return count;
  });
}

const textOf: Record<Format, (row: PetRow) => string> = {
  ndjson: ({ json }) => `${json}\n`,
  csv: ({ id, name, category_id, status }) => writeCsv([id, name, category_id, status]),
};
