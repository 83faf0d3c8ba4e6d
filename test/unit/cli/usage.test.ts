/** How commands are called: --help, --version, and exit 2 for what is not understood. */
import { expect, test } from 'vitest';
import { expectRows } from '../../support/commands.ts';
import { launchCli, runCli } from '../../support/process.ts';
import { projectFolder as folder, version } from '../../support/project.ts';

test('exit 0: --help of all commands, and of each, is on stdout and no wider than a terminal', async () => {
  const { stdout: all } = await runCli(['--help'], { folder });
  const names = [...all.matchAll(/^(\w+(?: \w+)?) {2}/gm)].map(([, name = '']) => name);
  expect(names.length).toBeGreaterThan(15);
  for (const name of ['', ...names]) {
    const args = [...name.split(' ').filter(Boolean), '--help'];
    const { code, stdout, stderr } = await runCli(args, { folder });
    expect({ code, stderr }, name).toEqual({ code: 0, stderr: '' });
    expect(stdout.split('\n').filter((line) => line.length > 80 && !line.startsWith('Usage: '))).toEqual([]);
    expect(stdout).toMatch(name ? new RegExp(`^Usage: animal-store ${name}[ \n]`) : /^Usage: animal-store <command>\n/);
  }
});

test('exit 0: -h, without regard to what else is wrong; --version prints the release, and the commit if it is known', async () => {
  const { stdout } = await runCli(['key', 'list', '--help'], { folder });
  expect(await runCli(['key', 'list', '--loud', '-h'], { folder })).toEqual({ code: 0, stdout, stderr: '' });
  const release = expect.stringMatching(new RegExp(`^${version}( \\([0-9a-f]{7}\\))?\n$`));
  expect(await runCli(['--version'], { folder })).toEqual({ code: 0, stdout: release, stderr: '' });
});

test('exit 2: without a command, the help is on stderr', async () => {
  const { stdout } = await runCli(['--help'], { folder });
  expect(await runCli([], { folder })).toEqual({ code: 2, stdout: '', stderr: stdout });
});

const create = 'key create --account zoo --name a';
const lifetime = '--expires must be a whole number from 1 to 99999 and m, h or d, such as 24h.';
const name = (label: string) => `${label} must be 1 to 100 printable characters, without a space at either end.`;
const from = '--from must be sqlite: and the path of a file, without ~, quotes, ? or percent-encoding.';
const file = '<file> must be the path of a file, without a space at either end; write ./- for a file that is named -.';
const id = '<id> must be the number that key list shows.';

/** The command line, and the error. After an error without a usage no command was recognized. */
const misused: [line: string | string[], error: string, isUnknown?: true][] = [
  ['feed', "Unknown command 'feed'.", true],
  ['--loud', "Unknown command '--loud'.", true],
  ['bakup x', "Unknown command 'bakup'. Did you mean 'backup'?", true],
  ['key lst', "Unknown command 'key lst'. Did you mean 'key list'?", true],
  ['import --force animals.jsonl', "Unknown option '--force'"],
  ['key list --account', "Option '--account <value>' argument missing"],
  ['migrate now', "Unknown argument 'now'"],
  ['account add', '<name> is missing'],
  ['key rotate 1', '--overlap <duration> is missing'],
  ...['90', '0d', '100000d'].map((text): [string, string] => [`${create} --expires ${text}`, lifetime]),
  ['key rotate 1 --overlap 100000m', '--overlap must be a whole number from 0 to 99999 and m, h or d, such as 24h.'],
  [`${create} --scopes pets:read,pets:eat`, '--scopes must be one or more of pets:read,pets:write.'],
  [[...create.split(' '), '--name', 'a '], name('--name')],
  [['account', 'add', 'a\nb'], name('<name>')],
  [`account add ${'x'.repeat(101)}`, name('<name>')],
  ...['7th', '0', '7.0'].map((text): [string, string] => [`key revoke ${text}`, id]),
  ['export --status lost', '--status must be one of available, pending, sold.'],
  // The URL, which may have a password, is not repeated.
  ['copy --from postgres://user:secret@host/a --to postgres://host/a', from],
  [['backup', ' a.db'], file],
  // Only import and export have a stream.
  ...['backup -', 'restore -', 'check -'].map((line): [string, string] => [line, file]),
  [['export', ''], '<file|-> must be the path of a file, without a space at either end, or -.'],
  ...['sqlite:a.db ', 'sqlite:a.db?mode=ro', 'sqlite:my%20d.db', "sqlite:'a.db'", 'sqlite::memory:'].map(
    (url): [string[], string] => [['copy', '--from', url, '--to', 'postgres://host/a'], from],
  ),
  [
    'copy --from sqlite:a.db --to http://user:secret@postgres://host/a',
    '--to must be postgres://user:password@host:port/database.',
  ],
];

test.for(misused)('exit 2: %j', async ([line, error, isUnknown]) => {
  const words = typeof line === 'string' ? line.split(' ') : line;
  const command = /^(account|key)$/.test(words[0] as string) ? words.slice(0, 2) : words.slice(0, 1);
  const [usage] = (await runCli([...command, '--help'], { folder })).stdout.split('\n');
  const next = isUnknown ? 'Help: npx animal-store --help' : usage;
  await expectRows(folder, [[line, 2, '', `error: ${error}\n${next}\n`]]);
});

test('key --help, and key alone on stderr, show the help of each of its commands', async () => {
  const { code, stdout } = await runCli(['key', '--help'], { folder });
  const each = ['create', 'list', 'revoke', 'rotate', 'usage'].map((name) =>
    runCli(['key', name, '--help'], { folder }),
  );
  expect([code, stdout]).toEqual([0, (await Promise.all(each)).map((help) => help.stdout).join('\n\n')]);
  expect(await runCli(['key'], { folder })).toEqual({ code: 2, stdout: '', stderr: stdout });
});

test('a process exits with the code of its command', async () => {
  const stderr = expect.stringMatching(/^error: Unknown command 'feed'/);
  expect(await launchCli(['feed']).end()).toEqual({ code: 2, stdout: '', stderr });
});
