/** Runs the examples unchanged against a real server. */
import { spawnSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { createServer } from 'node:http';
import { expect, test } from 'vitest';
import { launch, startServer } from '../../support/process.ts';
import { projectFolder, read } from '../../support/project.ts';
import { startProxy } from '../../support/proxy.ts';
import { listen } from '../../support/raw.ts';

const biscuit = { id: 1, name: 'Biscuit', categoryId: 9007199254740993n, status: 'available' };
const line = '1\tBiscuit\t9007199254740993\tavailable\n';

async function start() {
  const server = await startServer();
  return { server, env: { KEY: await server.firstKey(), BASE_URL: `${server.url}/v1` } };
}

const end = (env: Record<string, string>, command: string, file: string, ...args: string[]) =>
  launch(command, [`${projectFolder}examples/${file}`, ...args], { env }).end();

async function run(...given: Parameters<typeof end>) {
  const { code, stdout, stderr } = await end(...given);
  expect(code, stderr).toBe(0);
  return stdout;
}

const node = process.execPath;
const hasNoPython = spawnSync('python3', ['--version']).error;

test('session.sh adds, filters and pages; walk.js and pets.py print every digit', async ({ skip }) => {
  const { server, env } = await start();
  const first = JSON.stringify({ ...biscuit, categoryId: 0 }).replace('0,', '9007199254740993,');
  const second = '{"id":2,"name":"Crumb","categoryId":7,"status":"sold"}';
  expect(await run(env, 'bash', 'session.sh')).toBe(
    [first, second, 'Sold:', `[${second}]`, `[${first}]`, `[${second}]`, ''].join('\n'),
  );
  expect(await run(env, node, 'walk.js', 'available')).toBe(line);
  for (let round = 0; round < 21; round++)
    await Promise.all(Array.from(Array(10), (_, index) => server.add({ name: `P${index}`, categoryId: 1 })));
  const walked = (await run(env, node, 'walk.js')).trimEnd().split('\n');
  expect(walked.map((row) => Number(row.split('\t')[0]))).toEqual(Array.from(Array(212), (_, index) => index + 1));
  if (hasNoPython) skip('python3 is not installed');
  const printed = (await run(env, 'python3', 'pets.py', 'Spot', '9223372036854775807')).split('\n');
  expect(printed).toHaveLength(215);
  expect(printed.slice(0, 2)).toEqual([
    "Added: {'id': 213, 'name': 'Spot', 'categoryId': 9223372036854775807, 'status': 'available'}",
    '1 Biscuit 9007199254740993 available',
  ]);
});

test('retry.js adds once although the first response is lost', async () => {
  const { env } = await start();
  const proxy = await startProxy(env.BASE_URL);
  proxy.cutNextAnswer();
  const through = { ...env, BASE_URL: proxy.url };
  const { stdout, stderr } = await end(through, node, 'retry.js', 'Biscuit', '9007199254740993');
  expect(stdout).toMatch(
    /^201 \(the response to an earlier attempt\): \{"id":1,"name":"Biscuit","categoryId":9007199254740993,/,
  );
  expect(stderr).toMatch(/^Attempt 1: the outcome is unknown \(.+\)\.\nNext attempt in \d+ ms\.\n$/);
  expect(proxy.seen().match(/POST /g)).toHaveLength(2);
  expect(await run(env, node, 'walk.js')).toBe(line);
});

test('a response that is cut in its body is asked for again, and a list that ends with an error fails', async () => {
  let answers = 0;
  const fake = createServer((_request, response) => {
    answers += 1;
    if (answers === 1)
      return response.writeHead(201, { 'content-length': 50 }).write('{"id":1,', () => response.destroy());
    return response.writeHead(answers < 6 ? 200 : 503, { link: '</v1/pets>; rel="next"' }).end('[]');
  });
  const env = { KEY: 'key', BASE_URL: `http://127.0.0.1:${await listen(fake)}/v1` };
  expect(await end(env, node, 'retry.js', 'Biscuit', '7')).toMatchObject({ code: 0, stdout: '200: []\n' });
  expect((await end(env, 'bash', 'session.sh')).code).toBe(22);
  expect(await end(env, node, 'walk.js')).toMatchObject({ code: 1, stderr: '503 []\n' });
});

const programs: Record<string, string> = { 'npx node': node, python3: 'python3', bash: 'bash' };

test('each command of the README of the examples works', async ({ skip }) => {
  if (hasNoPython) skip('python3 is not installed');
  const readme = read('examples/README.md');
  const commands = [...readme.matchAll(/^\| \[`(\S.*) examples\/(\S+)((?: .+)?)`\]/gm)];
  const files = readdirSync(`${projectFolder}examples`).filter((file) => /\.(js|py|sh)$/.test(file));
  expect(commands.map(([, , file]) => file).sort()).toEqual(files);
  const { env } = await start();
  for (const [, program = '', file = '', args = ''] of commands)
    expect(await run(env, programs[program] as string, file, ...args.split(' ').filter(Boolean))).toContain('\n');
});
