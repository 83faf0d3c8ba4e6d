/** The command that adds animals from a file: first every line is checked, then they are added, in batches. */
import { closeSync, fstatSync } from 'node:fs';
import type { Command } from 'commander';
import { openImport } from '../repository/sqlite/import.ts';
import { printError } from '../server/environment.ts';
import { type Format, formatOf, formatOption } from './arguments.ts';
import { addRows, checkRows, type Faults, type Task } from './import-passes.ts';
import { hashOf, openSource, versionOf } from './import-source.ts';
import { animals, print } from './output.ts';
import { CommandError, now, storeFile } from './store.ts';

interface ImportOptions {
  format?: Format;
  skipBad?: boolean;
  keepIds?: boolean;
  again?: boolean;
}

export function importCommand(program: Command): void {
  program
    .command('import')
    .description(
      'add the animals of a file, all or none; the same command goes on where an earlier one was interrupted',
    )
    .argument('<file>', 'JSON lines or CSV, such as export writes; - is the standard input')
    .addOption(formatOption())
    .option('--skip-bad', 'add the good lines though others are bad')
    .option('--keep-ids', 'take the ids from the file, where the store has none of them')
    .option('--again', 'also where the same was imported before')
    .action(async (name: string, { format: given, skipBad = false, keepIds = false, again = false }: ImportOptions) => {
      const file = await openSource(name);
      const version = versionOf(file);
      const format = formatOf(name, given);
      const store = openImport(storeFile(), hashOf(file, `${format} ${keepIds}`), again, { now });
      try {
        const { size: bytes } = fstatSync(file);
        await run({ name, file, bytes, version, format, keepIds, store, stopped: onSignal() }, skipBad);
      } finally {
        store.close();
        closeSync(file);
      }
    });
}

async function run(task: Task, skipBad: boolean): Promise<void> {
  const { name, store } = task;
  const { endedAt, animals: count, lines } = store.mark();
  if (endedAt !== null) {
    const when = new Date(endedAt).toISOString();
    print(`${name} was imported already, on ${when}: ${animals(count)}. Use --again to import it once more.`);
    return;
  }
  if (lines > 0) process.stderr.write(`Going on after line ${lines}.\n`);
  const bad = await checkRows(task);
  if (bad.count > 0 && !skipBad) {
    const summary = `${bad.count} of ${bad.of} lines are bad, so nothing was imported: mend them, or use --skip-bad.`;
    throw new CommandError([...sentencesOf(bad), summary].join('\n'));
  }
  const leftOut = await addRows(task, !skipBad);
  if (bad.count > 0) printError(sentencesOf(bad).join('\n'));
  print(`Imported ${animals(store.mark().animals)}${skipBad ? `, left out ${leftOut} lines` : ''}.`);
}

function sentencesOf({ named, count }: Faults): string[] {
  return count > named.length ? [...named, `And ${count - named.length} more lines.`] : named;
}

/** Whether the operator has asked for an end. A second signal does not wait for it. */
function onSignal(): () => boolean {
  let stopped = false;
  for (const signal of ['SIGINT', 'SIGTERM'] as const)
    process.once(signal, () => {
      stopped = true;
    });
  return () => stopped;
}
