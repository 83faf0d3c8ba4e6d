/** How commands are called: --help, --version, and exit 2 for what is not understood. */
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { temporaryFolder } from '../../support/app.ts';
import { expectRows } from '../../support/commands.ts';
import { launch, launchCli, runCli } from '../../support/process.ts';
import { projectFolder } from '../../support/project.ts';

const folder = projectFolder;

/** The names of all commands, from --help. */
async function commands(): Promise<string[]> {
  const { stdout } = await runCli(['--help'], { folder });
  return [...stdout.matchAll(/^(\w+(?: \w+)?) {2}/gm)].map(([, name = '']) => name);
}

test('exit 0: --help of all commands, and of each, is on stdout and no wider than a terminal', async () => {
  const names = await commands();
  const help = [];
  for (const name of ['', ...names]) {
    const args = [...name.split(' ').filter(Boolean), '--help'];
    const { code, stdout, stderr } = await runCli(args, { folder });
    expect({ code, stderr }, name).toEqual({ code: 0, stderr: '' });
    expect(stdout.split('\n').filter((line) => line.length > 80 && !line.startsWith('Usage: '))).toEqual([]);
    help.push(`$ animal-store ${args.join(' ')}\n${stdout}`);
  }
  await expect(help.join('\n')).toMatchFileSnapshot('cli-help.txt');
});

test('exit 0: -h, without regard to what else is wrong; --version prints the release, and the commit if it is known', async () => {
  const { stdout } = await runCli(['key', 'list', '--help'], { folder });
  expect(await runCli(['key', 'list', '--loud', '-h'], { folder })).toEqual({ code: 0, stdout, stderr: '' });
  const { version } = JSON.parse(readFileSync(path.join(projectFolder, 'package.json'), 'utf8'));
  const release = expect.stringMatching(new RegExp(`^${version}( \\([0-9a-f]{7}\\))?\n$`));
  expect(await runCli(['--version'], { folder })).toEqual({ code: 0, stdout: release, stderr: '' });
});

test('exit 2: without a command, the help is on stderr', async () => {
  const { stdout } = await runCli(['--help'], { folder });
  expect(await runCli([], { folder })).toEqual({ code: 2, stdout: '', stderr: stdout });
});

const create = 'key create --account zoo --name a';
const createUsage = 'key create --account <account> --name <name> [--scopes <scopes>] [--expires <lifetime>] [--json]';
const lifetime = '--expires must be a whole number from 1 to 99999 and m, h or d, such as 24h.';
const name = (label: string) => `${label} must be 1 to 100 printable characters, without a space at either end.`;

/** The command line, the error, and the usage that follows; without one, no command was recognized. */
const misused: [line: string | string[], error: string, usage?: string][] = [
  ['feed', "Unknown command 'feed'"],
  ['exprot data.jsonl', "Unknown command 'exprot data.jsonl'"],
  ['--loud', "Unknown command '--loud'"],
  ['import --force animals.jsonl', "Unknown option '--force'", 'import <file>'],
  ['key list --jsn', "Unknown option '--jsn'", 'key list [--account <account>] [--json]'],
  ['key list --account', "Option '--account <value>' argument missing", 'key list [--account <account>] [--json]'],
  ['migrate now', "Unknown argument 'now'", 'migrate'],
  ['account add', '<name> is missing', 'account add <name>'],
  ['key create --account zoo', '--name <name> is missing', createUsage],
  ['key rotate 1', '--overlap <duration> is missing', 'key rotate <id> --overlap <duration> [--json]'],
  ...['90', '90dx', '0d', '100000d'].map(
    (text) => [`${create} --expires ${text}`, lifetime, createUsage] as [string, string, string],
  ),
  [
    'key rotate 1 --overlap 100000m',
    '--overlap must be a whole number from 0 to 99999 and m, h or d, such as 24h.',
    'key rotate <id> --overlap <duration> [--json]',
  ],
  [`${create} --scopes pets:read,pets:eat`, '--scopes must be one or more of pets:read,pets:write.', createUsage],
  [`${create} --name `, name('--name'), createUsage],
  [[...create.split(' '), '--name', 'a '], name('--name'), createUsage],
  [['account', 'add', 'a\nb'], name('<name>'), 'account add <name>'],
  [`account add ${'x'.repeat(101)}`, name('<name>'), 'account add <name>'],
  [['account', 'invite', 'zoo '], name('<name>'), 'account invite [<name>] [--json]'],
  ...['7th', '0', '7.0'].map(
    (text) =>
      [`key revoke ${text}`, '<id> must be the number that key list shows.', 'key revoke <id>'] as [
        string,
        string,
        string,
      ],
  ),
  [
    'export --status lost',
    '--status must be one of available, pending, sold.',
    'export [<file>] [--status <status>] [--force]',
  ],
  // The URL, which may have a password, is not repeated.
  [
    'copy --from postgres://user:secret@host/a --to postgres://host/a',
    '--from must be sqlite: and the path of a file.',
    'copy --from <sqlite-url> --to <postgres-url>',
  ],
  [
    'copy --from sqlite:a.db --to http://user:secret@postgres://host/a',
    '--to must be postgres://user:password@host:port/database.',
    'copy --from <sqlite-url> --to <postgres-url>',
  ],
];

test.for(misused)('exit 2: %j', async ([line, error, usage]) => {
  const next = usage ? `Usage: animal-store ${usage}` : 'Help: animal-store --help';
  await expectRows(folder, [[line, 2, '', `error: ${error}\n${next}\n`]]);
});

test.for(['npx --no animal-store -- --help', 'npm run -s cli -- --help'])(
  'exit 0: %s works from a checkout',
  async (line) => {
    const [program = '', ...args] = line.split(' ');
    const { stdout } = await runCli(['--help'], { folder });
    expect(await launch(program, args, { folder }).end()).toMatchObject({ code: 0, stdout });
  },
);

test('a process exits with the code of its command', async () => {
  const surroundings = { folder: temporaryFolder() };
  const exits = await Promise.all(
    [['feed'], ['key', 'revoke', '1']].map((args) => launchCli(args, surroundings).end()),
  );
  expect(exits).toMatchObject([
    { code: 2, stdout: '', stderr: expect.stringMatching(/^error: Unknown command 'feed'/) },
    { code: 1, stdout: '', stderr: expect.stringMatching(/^animal-store: DATABASE_URL: .+ does not exist/) },
  ]);
});
