/** Tests that a command's output file is on disk under its final name when the command ends, from strace's log of its system calls. */
import path from 'node:path';
import { beforeEach, expect, test } from 'vitest';
import { commandFolder } from '../../support/commands.ts';
import { launchCli } from '../../support/process.ts';
import { needStrace, tracingFiles } from '../../support/strace.ts';
import { callsIn } from './disk-trace.ts';

beforeEach(needStrace);

test.for<[command: string, args: string[], made: string]>([
  ['backup', ['copy.db', '--force'], 'copy.db'],
  ['export', ['animals.jsonl'], 'animals.jsonl'],
  ['restore', ['copy.db'], 'data/animal-store.db'],
])(
  '%s waits for the disk: it syncs the data before the rename and the folder after it',
  async ([command, args, made]) => {
    const { folder, run } = await commandFolder({ name: 'Biscuit', categoryId: 7n, status: 'sold' });
    await run('backup', 'copy.db');
    const log = `${folder}/trace`;
    const exit = await launchCli([command, ...args], { folder, under: tracingFiles(log) }).end();
    expect(exit.code, exit.stderr).toBe(0);

    const calls = [...callsIn(log)].map(({ call, begun, done }) => {
      // fsync(24</tmp/a>) = 0, or rename("a", "/tmp/b") = 0
      const [, name = '', descriptor, from, to = ''] = /^(\w+)\((?:\d+<([^>]*)>|"([^"]*)", "([^"]*)")/.exec(call) ?? [];
      return { name, file: path.resolve(folder, descriptor ?? from ?? ''), to: path.resolve(folder, to), begun, done };
    });
    const renaming = calls.find(({ name, to }) => name === 'rename' && to === `${folder}/${made}`);
    const written = calls.findLast(({ name, file }) => /^p?write/.test(name) && file === renaming?.file);
    if (!renaming || !written) throw new Error(`${command} has renamed no file`);
    const inFolder = path.dirname(renaming.to);
    const synced = (what: string, from: number, to: number) =>
      calls.some(({ name, file, begun, done }) => name === 'fsync' && file === what && begun > from && done < to);
    expect([
      ...(synced(written.file, written.done, renaming.begun) ? ['what was written'] : []),
      ...(synced(inFolder, renaming.done, Number.POSITIVE_INFINITY) ? ['the name'] : []),
    ]).toEqual(['what was written', 'the name']);
  },
);
