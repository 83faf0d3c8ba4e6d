/** Runs the examples unchanged against a real server. */
import { spawnSync } from 'node:child_process';
import { cpSync, readdirSync, readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { temporaryFolder } from '../../support/app.ts';
import { findPort } from '../../support/known-port.ts';
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
  const pet = (index: number) =>
    `{"name":"P${index}","categoryId":9007199254740993,"status":"${index % 2 ? 'sold' : 'pending'}"}`;
  const headers = { authorization: `Bearer ${env.KEY}`, 'content-type': 'application/json' };
  for (let index = 1; index <= 102; index += 1)
    await fetch(`${server.url}/v1/pets`, { method: 'POST', headers, body: pet(index) });
  const find = async (...args: string[]) => {
    const { code, stdout, stderr } = await launch(node, [`${projectFolder}examples/find.js`, ...args], { env }).end();
    return [code, stdout + stderr];
  };
  const found = (id: number) => [0, `{"id":${id},${pet(id).slice(1)}\n`];
  const [last, ofStatus, none, badStatus] = await Promise.all([
    find('102'),
    find('1', 'sold'),
    find('4', 'sold'),
    find('4', 'gone'),
  ]);
  expect([last, ofStatus]).toEqual([found(102), found(1)]);
  expect(none).toEqual([1, 'There is no sold animal with the id 4.\n']);
  expect(badStatus).toEqual([1, '400 invalid_parameter: status must be one of available, pending, sold.\n']);
});

test('retry.js knows that a refused connection was not sent, and tries again until the server is there', async () => {
  const port = await findPort();
  const { KEY } = (await start()).env;
  const env = { KEY, BASE_URL: `http://127.0.0.1:${port}/v1` };
  const trying = launch(node, [`${projectFolder}examples/retry.js`, 'Biscuit', '7'], { env });
  await trying.seen('stderr', /^Attempt 1: nothing was sent \(ECONNREFUSED\)\.\nNext attempt in \d+ ms\.$/m);
  const late = createServer((_request, response) => void response.writeHead(201).end('{}'));
  late.listen(port, '127.0.0.1');
  onTestFinished(() => void late.close());
  expect(await trying.end()).toMatchObject({ code: 0, stdout: '201: {}\n' });
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

/** Without typed.ts, which typed.js starts. */
const examples = readdirSync(`${projectFolder}examples`).filter((file) => /\.(js|py|sh)$/.test(file));
const commandOf = (file: string) => (file.endsWith('.py') ? 'python3' : file.endsWith('.sh') ? 'bash' : 'node');
const isMissing = (file: string) => spawnSync(commandOf(file), ['--version']).error !== undefined;

test.for(examples)(
  '%s prints its usage without a key or its arguments, and no stack if nothing listens',
  async (file, { skip }) => {
    if (isMissing(file)) skip(`${commandOf(file)} is not installed`);
    // Nothing listens on port 2, and fetch does not refuse it, as it does port 1.
    const env = { KEY: 'ast_test_none', BASE_URL: 'http://127.0.0.1:2/v1' };
    const start = (args: string[], given: Record<string, string>) =>
      launch(commandOf(file), [`${projectFolder}examples/${file}`, ...args], { env: given }).end();
    const { stderr, ...rest } = await start([], {});
    expect(rest).toEqual({ code: 2, stdout: '' });
    const usage = new RegExp(`^Usage: KEY=YOUR_API_KEY \\S.* examples/${file}((?: [A-Z_]+)*)( \\[\\S+\\])?\n$`);
    expect(stderr).toMatch(usage);
    const names = usage.exec(stderr)?.[1]?.trim().split(' ').filter(Boolean) ?? [];
    const args = names.map((name) => (name === 'NAME' ? 'Biscuit' : '7'));
    if (args.length > 0) expect(await start(args.slice(1), env)).toEqual({ code: 2, stdout: '', stderr });
    const failed = await start(args, env);
    expect([failed.code === 0, failed.stdout]).toEqual([false, '']);
    const attempts = /^(Attempt \d: nothing was sent \(ECONNREFUSED\)\.\n(Next attempt in \d+ ms\.\n)?){6}/;
    const [told] = attempts.exec(failed.stderr) ?? [''];
    expect(told === '').toBe(file !== 'retry.js');
    expect(failed.stderr.slice(told.length)).toMatch(
      /^(\S+:2\/v1 does not answer: .*(ECONNREFUSED|refused)\.( Nothing was added\.)?|curl: \(7\) .+)\n$/,
    );
  },
);

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

test('with an older Node, the scripts say which they need', async ({ skip }) => {
  const { stdout: version } = spawnSync('node', ['--version'], { env: { PATH: machinePath }, encoding: 'utf8' });
  if (!version || Number.parseInt(version.slice(1), 10) >= 24) skip(`the machine's node is ${version || 'missing'}`);
  const env = { PATH: machinePath, KEY: 'ast_test_none' };
  for (const file of examples.filter((name) => name.endsWith('.js')))
    expect(await launch('node', [`${projectFolder}examples/${file}`], { env }).end()).toEqual({
      code: 2,
      stdout: '',
      stderr: expect.stringMatching(
        `^This example needs Node 24 or later, and this is ${version.trimEnd()}\\.\nUsage: .+\n$`,
      ),
    });
});

test('with an older Node, npm start and npx animal-store say in one sentence which they need', async ({ skip }) => {
  const { stdout: version } = spawnSync('node', ['--version'], { env: { PATH: machinePath }, encoding: 'utf8' });
  if (!version || Number.parseInt(version.slice(1), 10) >= 24) skip(`the machine's node is ${version || 'missing'}`);
  // Without node_modules, where npm would find a newer Node.
  const folder = temporaryFolder();
  for (const name of ['package.json', 'src'])
    cpSync(projectFolder + name, path.join(folder, name), { recursive: true });
  const env = { PATH: machinePath, HOME: process.env.HOME ?? '', npm_config_loglevel: 'error', npm_config_yes: 'true' };
  for (const [command, ...args] of [
    ['npm', 'start', '--silent'],
    ['npm', 'run', 'cli', '--silent', '--', '--version'],
    ['npx', 'animal-store', '--version'],
  ] as [string, ...string[]][])
    expect([args, await launch(command, args, { folder, env }).end()]).toEqual([
      args,
      {
        code: 1,
        stdout: '',
        stderr: `animal-store: Node 24 or later is needed, and this is ${version.trimEnd()}. Install it; or run npm ci, which brings one on most platforms, and start with npm start or npx animal-store, which find it.\n`,
      },
    ]);
});
