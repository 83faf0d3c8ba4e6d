/** How any command ends: its exit code, one sentence for what goes wrong, and what a terminal shows. */
import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { Readable, Writable } from 'node:stream';
import { describe, expect, test } from 'vitest';
import { run } from '../../../src/cli/program.ts';
import { temporaryFolder } from '../../support/app.ts';
import { runCli } from '../../support/process.ts';

/** A stream that keeps what is written to it, or fails with `error`. */
function capture({ isTTY = false, error }: { isTTY?: boolean; error?: Error } = {}) {
  const parts: string[] = [];
  const stream = new Writable({
    write(part: Buffer, _encoding, done) {
      parts.push(part.toString());
      done(error);
    },
  });
  return { stream: Object.assign(stream, { isTTY }), text: () => parts.join('') };
}

const lines = Array.from({ length: 3000 }, (_, at) => JSON.stringify({ name: `pet ${at}`, categoryId: at })).join('\n');

describe('on a terminal', () => {
  test('import and export show their progress, and remove it before their last line', async () => {
    const cwd = temporaryFolder();
    await runCli(['migrate'], { folder: cwd });
    writeFileSync(path.join(cwd, 'animals.jsonl'), lines);
    for (const [args, unit] of [
      [['import', 'animals.jsonl'], 'lines'],
      [['export', 'out.jsonl'], 'animals'],
      [['backup', 'copy.db'], 'pages'],
    ] as const) {
      const [stdout, stderr] = [capture(), capture({ isTTY: true })];
      expect(
        await run([...args], {}, { cwd, stdin: Readable.from([]), stdout: stdout.stream, stderr: stderr.stream }),
      ).toBe(0);
      expect(stderr.text(), args[0]).toMatch(new RegExp(`\\r.+ [█░]{30} \\d+ %, \\d+ ${unit}, \\d+/s`));
      expect(stderr.text().split('\r').at(-1)?.startsWith('\x1b[K'), args[0]).toBe(true);
    }
  });
});

describe('a command whose output cannot be written', () => {
  test.each([
    [
      Object.assign(new Error('write EPIPE'), { code: 'EPIPE', syscall: 'write' }),
      'The output was closed before its end.',
    ],
    [
      Object.assign(new Error('ENOSPC: no space left on device, write'), { code: 'ENOSPC', syscall: 'write' }),
      'ENOSPC: no space left on device, write.',
    ],
  ])('says so: %s', async (error, sentence) => {
    const cwd = temporaryFolder();
    await runCli(['account', 'add', 'zoo'], { folder: cwd });
    const [stdout, stderr] = [capture({ error }), capture()];
    const io = { cwd, stdin: Readable.from([]), stdout: stdout.stream, stderr: stderr.stream };
    expect(await run(['account', 'list'], {}, io)).toBe(1);
    expect(stderr.text()).toBe(`animal-store: ${sentence}\n`);
  });
});

describe('a file or folder that cannot be used is named in one sentence', () => {
  test.each<[string[], RegExp]>([
    [['import', 'missing.jsonl'], /^animal-store: missing\.jsonl does not exist\.\n$/],
    [['import', 'missing/a.jsonl'], /^animal-store: .*missing does not exist\.\n$/],
    [['import', 'folder'], /^animal-store: .*folder.*\.\n$/],
    [['export', 'missing/out.jsonl'], /^animal-store: missing does not exist\.\n$/],
    [['export', 'folder'], /^animal-store: .*folder.*\.\n$/],
    [['backup', 'missing/copy.db'], /^animal-store: missing does not exist\.\n$/],
    [['restore', 'missing.db'], /^animal-store: missing\.db does not exist\.\n$/],
  ])('%j', async (args, sentence) => {
    const folder = temporaryFolder();
    await runCli(['migrate'], { folder });
    mkdirSync(path.join(folder, 'folder'));
    const { code, stdout, stderr } = await runCli(args, { folder });
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
    expect(stderr).toMatch(sentence);
  });
});

test('a command that is not understood exits with 2, and a question for help with 0', async () => {
  expect(await runCli(['acount', 'list'])).toMatchObject({ code: 2, stdout: '' });
  expect(await runCli(['key', 'revoke'])).toMatchObject({ code: 2, stdout: '' });
  expect(await runCli(['--help'])).toMatchObject({ code: 0, stderr: '' });
  expect(await runCli(['--version'])).toMatchObject({ code: 0, stdout: expect.stringMatching(/^\d+\.\d+\.\d+/) });
});
