/** Runs the examples unchanged against a real server. */
import { spawnSync } from 'node:child_process';
import { cpSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { temporaryFolder } from '../../support/app.ts';
import { launch, type Server, startServer } from '../../support/process.ts';
import { projectFolder } from '../../support/project.ts';
import { startProxy } from '../../support/proxy.ts';

const biscuit = { id: 1, name: 'Biscuit', categoryId: 9007199254740993n, status: 'available' };
const line = '1\tBiscuit\t9007199254740993\tavailable\n';

async function start(): Promise<{ server: Server; env: { KEY: string; BASE_URL: string } }> {
  const server = await startServer();
  return { server, env: { KEY: await server.firstKey(), BASE_URL: `${server.url}/v1` } };
}

async function run(env: Record<string, string>, command: string, file: string, ...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await launch(command, [`${projectFolder}examples/${file}`, ...args], { env }).end();
  expect(code, stderr).toBe(0);
  return stdout;
}

const node = process.execPath;

test('session.sh adds, filters and pages; walk.js and pets.py print every digit', async ({ skip }) => {
  const { server, env } = await start();
  const first = JSON.stringify({ ...biscuit, categoryId: 0 }).replace('0,', '9007199254740993,');
  const second = '{"id":2,"name":"Crumb","categoryId":7,"status":"sold"}';
  expect(await run(env, 'bash', 'session.sh')).toBe(
    [first, second, 'Sold:', `[${second}]`, `[${first}]`, `[${second}]`, ''].join('\n'),
  );
  expect(await run(env, node, 'walk.js', 'available')).toBe(line);
  await Promise.all(
    Array.from({ length: 210 }, (_, index) =>
      server.call(env.KEY, 'POST', '/v1/pets', { name: `P${index}`, categoryId: 1 }),
    ),
  );
  const walked = (await run(env, node, 'walk.js')).trimEnd().split('\n');
  expect(walked.map((row) => Number(row.split('\t')[0]))).toEqual(Array.from({ length: 212 }, (_, index) => index + 1));
  if (spawnSync('python3', ['--version']).error) skip('python3 is not installed');
  const printed = (await run(env, 'python3', 'pets.py', 'Spot', '9223372036854775807')).split('\n');
  expect(printed).toHaveLength(215);
  expect(printed.slice(0, 2)).toEqual([
    "Added: {'id': 213, 'name': 'Spot', 'categoryId': 9223372036854775807, 'status': 'available'}",
    '1 Biscuit 9007199254740993 available',
  ]);
});

test('find.js finds an animal in the list, also on its last page and in that of a status, and says if there is none', async () => {
  const { server, env } = await start();
  for (let index = 1; index <= 102; index += 1)
    await server.call(env.KEY, 'POST', '/v1/pets', {
      name: 'P',
      categoryId: 1,
      status: index % 2 ? 'sold' : 'pending',
    });
  for (const [args, code, printed] of [
    [['102'], 0, '{"id":102,"name":"P","categoryId":1,"status":"pending"}\n'],
    [['1', 'sold'], 0, '{"id":1,"name":"P","categoryId":1,"status":"sold"}\n'],
    [['4', 'sold'], 1, 'There is no sold animal with the id 4.\n'],
    [['4', 'gone'], 1, '400 invalid_parameter: status must be one of available, pending, sold.\n'],
  ] as const) {
    const exit = await launch(node, [`${projectFolder}examples/find.js`, ...args], { env }).end();
    expect([exit.code, exit.stdout + exit.stderr]).toEqual([code, printed]);
  }
});

test('retry.js adds once although the first response is lost', async () => {
  const { server, env } = await start();
  const proxy = await startProxy(`${server.url}/`);
  proxy.cutNextAnswer();
  const through = { ...env, BASE_URL: proxy.through(env.BASE_URL) };
  const { stdout, stderr } = await launch(node, [`${projectFolder}examples/retry.js`, 'Biscuit', '9007199254740993'], {
    env: through,
  }).end();
  expect(stdout).toMatch(
    /^201 \(the response to an earlier attempt\): \{"id":1,"name":"Biscuit","categoryId":9007199254740993,/,
  );
  expect(stderr).toMatch(/^Attempt 1: the outcome is unknown \(.+\)\.\nNext attempt in \d+ ms\.\n$/);
  expect(proxy.seen().match(/POST /g)).toHaveLength(2);
  expect(await run(env, node, 'walk.js')).toBe(line);
});

const examples = readdirSync(`${projectFolder}examples`).filter((file) => /\.(js|py|sh)$/.test(file));
const commandOf = (file: string) => (file.endsWith('.py') ? 'python3' : file.endsWith('.sh') ? 'bash' : 'node');
const isMissing = (file: string) => spawnSync(commandOf(file), ['--version']).error !== undefined;

test.for(examples)('%s prints its usage without a key, and no stack if nothing listens', async (file, { skip }) => {
  if (isMissing(file)) skip(`${commandOf(file)} is not installed`);
  const start = (args: string[], env: Record<string, string>) =>
    launch(commandOf(file), [`${projectFolder}examples/${file}`, ...args], { env }).end();
  const { stderr, ...rest } = await start([], {});
  expect(rest).toEqual({ code: 2, stdout: '' });
  const usage = new RegExp(`^Usage: KEY=YOUR_API_KEY \\S.* examples/${file}((?: [A-Z_]+)*)( \\[\\S+\\])?\n$`);
  expect(stderr).toMatch(usage);
  const names = usage.exec(stderr)?.[1]?.trim().split(' ').filter(Boolean) ?? [];
  const args = names.map((name) => (name === 'NAME' ? 'Biscuit' : '7'));
  // Nothing listens on port 2, and fetch does not refuse it, as it does port 1.
  const failed = await start(args, { KEY: 'ast_test_none', BASE_URL: 'http://127.0.0.1:2/v1' });
  expect([failed.code === 0, failed.stdout]).toEqual([false, '']);
  const attempts = /^(Attempt \d: nothing was sent \(ECONNREFUSED\)\.\n(Next attempt in \d+ ms\.\n)?){6}/;
  expect(attempts.test(failed.stderr)).toBe(file === 'retry.js');
  expect(failed.stderr.replace(attempts, '')).toMatch(
    /^(\S+:2\/v1 does not answer: .*(ECONNREFUSED|refused)\.( Nothing was added\.)?|curl: \(7\) .+)\n$/,
  );
});

/** The machine's own programs, without those of node_modules. */
const machinePath =
  process.env.PATH?.split(':')
    .filter((folder) => !folder.includes('node_modules'))
    .join(':') ?? '';

test('the README of the examples names each, with a command that runs whatever Node the machine has', async () => {
  const readme = readFileSync(`${projectFolder}examples/README.md`, 'utf8');
  const commands = [...readme.matchAll(/^\| \[`((\S.*) examples\/(\S+)(?: .+)?)`\]\((\S+)\)/gm)];
  expect(commands.map(([, , , file]) => file).sort()).toEqual(examples);
  const { env } = await start();
  for (const [, command = '', program, file = '', link] of commands) {
    expect([link, program]).toEqual([file, commandOf(file).replace(/^node$/, 'npx node')]);
    if (isMissing(file)) continue;
    const [name = '', ...words] = command.split(' ');
    // Without npm's warnings about the settings of this machine.
    const surroundings = { ...env, PATH: machinePath, npm_config_loglevel: 'error' };
    const { code, stdout, stderr } = await launch(name, words, { folder: projectFolder, env: surroundings }).end();
    expect([command, code, stderr]).toEqual([command, 0, '']);
    expect(stdout).toContain(file === 'walk.js' ? line : 'Biscuit');
  }
});

test('with an older Node, an example, npm start and npx animal-store say in one sentence which they need', async ({
  skip,
}) => {
  const { stdout } = spawnSync('node', ['--version'], { env: { PATH: machinePath }, encoding: 'utf8' });
  if (!stdout || Number.parseInt(stdout.slice(1), 10) >= 24) skip(`the machine's node is ${stdout || 'missing'}`);
  // Without node_modules, where npm would find a newer Node.
  const folder = temporaryFolder();
  for (const name of ['package.json', 'src', 'examples'])
    cpSync(projectFolder + name, path.join(folder, name), { recursive: true });
  const npm = { HOME: process.env.HOME ?? '', npm_config_loglevel: 'error', npm_config_yes: 'true' };
  const needed = `Node 24 or later is needed, and this is ${stdout.trimEnd()}. Install it; or run npm ci, which brings one on most platforms`;
  for (const [line, sentence] of [
    ['npm start --silent', `animal-store: ${needed}`],
    ['npx animal-store --version', `animal-store: ${needed}`],
    ['node examples/walk.js', 'This example needs Node 24 or later, and this is'],
  ] as const) {
    const [command = '', ...args] = line.split(' ');
    const { code, stderr } = await launch(command, args, { folder, env: { PATH: machinePath, ...npm } }).end();
    expect([line, code === 0, stderr.startsWith(sentence)]).toEqual([line, false, true]);
  }
});
