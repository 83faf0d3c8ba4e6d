/** The command that writes all animals out. */
import { createWriteStream } from 'node:fs';
import type { Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { type Command, Option } from 'commander';
import { writeCsv } from '../csv.ts';
import { type PetStatus, statuses } from '../pets.ts';
import { makeFile } from '../repository/files.ts';
import { type Export, openExport, type PetRow } from '../repository/sqlite/export.ts';
import { columns, type Format, formatOf, formatOption } from './arguments.ts';
import { animals } from './output.ts';
import { replaceFile } from './output-file.ts';
import { withProgress } from './progress.ts';
import { now, storeFile } from './store.ts';

interface ExportOptions {
  format?: Format;
  status?: PetStatus;
  force?: boolean;
}

export function exportCommand(program: Command): void {
  program
    .command('export')
    .description('write out all animals, ascending by id')
    .argument('[file]', 'where to; - is the standard output', '-')
    .addOption(formatOption())
    .addOption(new Option('--status <status>', 'only animals of this status').choices(statuses))
    .option('--force', 'replace the file where it exists')
    .action(async (file: string, { format: given, status, force }: ExportOptions) => {
      const source = openExport(storeFile(), status, { now });
      const format = formatOf(file, given);
      try {
        const count = await (file === '-'
          ? write(source, format, process.stdout, { end: false })
          : replaceFile(file, force, (partial) =>
              makeFile(partial, 0o666, (descriptor) => {
                const output = createWriteStream('', { fd: descriptor, autoClose: false });
                return write(source, format, output, { end: true });
              }),
            ));
        process.stderr.write(`Exported ${animals(count)}.\n`);
      } finally {
        source.close();
      }
    });
}

function write(source: Export, format: Format, output: Writable, options: { end: boolean }): Promise<number> {
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
