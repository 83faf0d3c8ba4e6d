/** Tests that a command's output file is on disk under its final name when the command ends, from strace's log of its system calls. */
import path from 'node:path';
import { beforeEach, expect, test } from 'vitest';
import { commandFolder } from '../../support/commands.ts';
import { callsIn } from '../../support/disk-trace.ts';
import { launchCli } from '../../support/process.ts';
import { needStrace, tracingFiles } from '../../support/strace.ts';
import { patientMs } from '../../support/tier.ts';

const store = 'data/animal-store.db';
const made = { backup: 'backup.db', export: 'animals.jsonl', restore: store };

/** What the command synced at the right point: the data before the rename, and the folder, which holds the name, after it. */
async function syncsOf(command: keyof typeof made): Promise<string[]> {
  const { folder, run } = await commandFolder({ name: 'Biscuit', categoryId: 7n, status: 'sold' });
  await run('backup', 'copy.db');
  if (command === 'backup') await run('backup', made.backup);
  const log = path.join(folder, 'trace');
  const file = command === 'restore' ? 'copy.db' : made[command];
  const force = command === 'backup' ? ['--force'] : [];
  const exit = await launchCli([command, file, ...force], { folder, under: tracingFiles(log) }).end();
  expect(exit.code, exit.stderr).toBe(0);

  const calls = [...callsIn(log)].map((call) => ({ ...call, ...partsOf(call.call, folder) }));
  const renaming = calls.find(({ name, to }) => name === 'rename' && to === path.join(folder, made[command]));
  const written = calls.findLast(({ name, file }) => /^p?write/.test(name) && file === renaming?.file);
  if (!renaming || !written) throw new Error(`${command} has renamed no file`);
  const synced = (what: string, from: number, to: number) =>
    calls.some(({ name, file, begun, done }) => name === 'fsync' && file === what && begun > from && done < to);
  return [
    ...(synced(written.file, written.done, renaming.begun) ? ['what was written'] : []),
    ...(synced(path.dirname(renaming.to), renaming.done, Number.POSITIVE_INFINITY) ? ['the name'] : []),
  ];
}

/** The file in `fsync(24</tmp/a>) = 0`, or both files in `rename("a", "/tmp/b") = 0`. */
function partsOf(call: string, folder: string): { name: string; file: string; to: string } {
  const [, name = '', descriptor, from, to = ''] = /^(\w+)\((?:\d+<([^>]*)>|"([^"]*)", "([^"]*)")/.exec(call) ?? [];
  return { name, file: path.resolve(folder, descriptor ?? from ?? ''), to: path.resolve(folder, to) };
}

beforeEach(needStrace);

test.for(['backup', 'export', 'restore'] as const)(
  '%s waits for the disk: it syncs the data before the rename and the folder after it',
  { timeout: patientMs },
  async (command) => expect(await syncsOf(command)).toEqual(['what was written', 'the name']),
);
