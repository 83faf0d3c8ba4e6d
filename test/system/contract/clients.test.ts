/** Generates the clients of the table in examples/clients with the commands that it names, and runs their programs against a real server. */
import { spawnSync } from 'node:child_process';
import { cpSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { temporaryFolder } from '../../support/app.ts';
import { launch, startServer } from '../../support/process.ts';
import { projectFolder, read } from '../../support/project.ts';
import { startProxy } from '../../support/proxy.ts';

const readme = read('examples/clients/README.md');
const rows = [...readme.matchAll(/^\| \[([^\]]+)\]\(.+?\).*? \| `((?:npx|mkdir) [^`]+)` \| \[[^\]]+\]\((\S+)\) \|$/gm)];

/** The first of the commands that exits with 0; undefined if there is none. */
const findWorking = (...commands: [string, ...string[]][]) =>
  commands.find(([file, ...args]) => spawnSync(file, args, { stdio: 'ignore' }).status === 0)?.[0];

const modules = 'import certifi, dateutil, six, urllib3';
const python = findWorking(['python3', '-c', modules], ['/usr/bin/python3', '-c', modules]);
const hasJava = findWorking(['java', '-version']) !== undefined;

const strict = {
  target: 'es2024',
  module: 'nodenext',
  lib: ['es2024', 'dom', 'dom.iterable'],
  types: ['node'],
  strict: true,
  noEmit: true,
  skipLibCheck: true,
  allowImportingTsExtensions: true,
};

/** Runs a command of the table. npx asks nothing. */
function run(command: string, folder: string) {
  const env = { ...process.env, npm_config_yes: 'true', npm_config_ignore_scripts: 'true' };
  const { status, stdout, stderr } = spawnSync('bash', ['-c', command], { cwd: folder, encoding: 'utf8', env });
  expect(status, stdout + stderr).toBe(0);
}

expect(rows).toHaveLength(5);

test.for(rows.map(([, generator, command, program]) => [generator, command, program] as [string, string, string]))(
  '%s: the generated client keeps every digit, reads all pages, retries a create that was lost, and has typed errors',
  async ([, command, program], { skip }) => {
    const isPython = program.endsWith('.py');
    if (isPython && !(python && hasJava)) return skip('needs Java and python3-{certifi,dateutil,six,urllib3}');
    // The document and the examples, without what is generated, and the packages of the project.
    const folder = temporaryFolder();
    const filter = (file: string) => !/generated/.test(path.relative(projectFolder, file));
    for (const name of ['openapi.yaml', 'openapi-3.0.json', 'package.json', 'examples'])
      cpSync(projectFolder + name, path.join(folder, name), { recursive: true, filter });
    // Generators read it, too: it decides the endings of imported files.
    writeFileSync(path.join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions: strict }));
    symlinkSync(`${projectFolder}node_modules`, path.join(folder, 'node_modules'));
    run(command, path.join(folder, 'examples/clients'));
    const file = path.join(folder, 'examples/clients', program);
    if (!isPython) {
      const config = { extends: './tsconfig.json', files: [file] };
      writeFileSync(path.join(folder, 'tsconfig.program.json'), JSON.stringify(config));
      run('node_modules/.bin/tsc --project tsconfig.program.json', folder);
    }

    // The program meets a store of 204 animals, and the first response to its POST is lost.
    const server = await startServer();
    const key = await server.firstKey();
    for (let count = 0; count < 204; count += 4)
      await Promise.all([1, 2, 3, 4].map(() => server.call(key, 'POST', '/v1/pets', { name: 'Crumb', categoryId: 7 })));
    const proxy = await startProxy(`${server.url}/v1`);
    proxy.cutNextAnswer();
    const env = { KEY: key, BASE_URL: proxy.url };
    const { code, stdout, stderr } = await launch(isPython ? (python as string) : process.execPath, [file], {
      env,
    }).end();
    expect([code, stderr]).toEqual([0, '']);
    expect(proxy.seen().match(/POST \/v1\/pets /g)).toHaveLength(2);
    expect(new Set(proxy.seen().match(/(?<=^idempotency-key: ).+/gim)).size).toBe(1);
    const response = await fetch(`${server.url}/v1/pets/205`, { headers: { authorization: `Bearer ${key}` } });
    expect(await response.text()).toBe(
      '{"id":205,"name":"Biscuit","categoryId":9007199254740993,"status":"available"}',
    );
    expect((await server.call(key, 'GET', '/v1/pets/206')).status).toBe(404);
    const lines = stdout.split('\n');
    if (program === 'openapi-fetch.ts')
      expect([lines[0], lines.length, lines.at(-2)]).toEqual([
        'Added animal 205, which is available.',
        207,
        'Biscuit: 9007199254740993',
      ]);
    else
      expect(lines).toEqual([
        'Added an animal of category 9007199254740993.',
        'Read 205 animals.',
        'invalid_cursor: cursor must be copied unchanged from the Link header of a list response.',
        '',
      ]);
  },
);
