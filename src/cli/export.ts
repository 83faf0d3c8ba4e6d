/** The command that writes all animals to a file or to stdout. */
import { writeFileSync } from 'node:fs';
import { pipeline } from 'node:stream/promises';
import { type Command, Option } from 'commander';
import { writeCsv } from '../core/csv.ts';
import { type PetStatus, statuses } from '../core/pets.ts';
import type { Export, PetRow } from '../store/bulk.ts';
import { makeFile } from '../store/files.ts';
import { sqliteFile } from '../store/open.ts';
import { openExport } from '../store/sqlite/export.ts';
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
      const source = await openSource(context, status);
      const format = formatOf(file, given);
      try {
        const count = await (file === '-'
          ? write(context, source, format, (texts) => pipeline(texts, context.stdout, { end: false }))
          : replaceFile(context, file, force, (partial) =>
              makeFile(partial, 0o666, (descriptor) =>
                write(context, source, format, (texts) => writeTo(descriptor, texts)),
              ),
            ));
        context.note(`Exported ${animals(count)}.`);
      } finally {
        source.close();
      }
    });
}

async function openSource({ databaseUrl, logger }: Context, status: PetStatus | undefined): Promise<Export> {
  const url = databaseUrl();
  const options = { now, logger };
  if (url.startsWith('sqlite:')) return openExport(sqliteFile(url), status, options);
  // Imported only here: the PostgreSQL driver takes long to load.
  const postgres = await import('../store/postgres/export.ts');
  return postgres.openExport(url, status, options);
}

function write(
  { withProgress }: Context,
  source: Export,
  format: Format,
  consume: (texts: AsyncIterable<string>) => Promise<void>,
): Promise<number> {
  return withProgress('Exporting', 'animals', async (progress) => {
    let count = 0;
    async function* texts(): AsyncGenerator<string> {
      const total = progress.visible ? await source.count() : 0;
      if (format === 'csv') yield writeCsv(columns);
      for await (const rows of source.pages()) {
        count += rows.length;
        progress.show(count, total);
        yield rows.map(textOf[format]).join('');
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

const textOf: Record<Format, (row: PetRow) => string> = {
  ndjson: ({ json }) => `${json}\n`,
  csv: ({ id, name, category_id, status }) => writeCsv([id, name, category_id, status]),
};
