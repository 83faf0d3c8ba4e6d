/** Overload as deployed: a server with a fifth of a core behind the files of nginx, which clients ask from many addresses. */
import { setTimeout as sleep } from 'node:timers/promises';
import { beforeEach, expect, test } from 'vitest';
import { temporaryFolder } from '../../support/app.ts';
import { configureProxy, limitShare } from '../../support/as-deployed.ts';
import { findPort } from '../../support/known-port.ts';
import { needNginx } from '../../support/nginx.ts';
import type { Answers, Task } from '../../support/open-loop.ts';
import { launch } from '../../support/process.ts';
import { projectFolder } from '../../support/project.ts';
import { addAccount, addKey, makeStore, serve } from '../../support/store-file.ts';

beforeEach(needNginx);
beforeEach(({ skip }) => {
  if (process.getuid?.() !== 0) skip('a share of a processor is not installed for this user');
});

const head = (line: string, more = '') =>
  `${line} HTTP/1.1\r\nHost: animals.example.com\r\nAuthorization: Bearer {key}\r\n${more}\r\n`;
const page = head('GET /v1/pets?limit={limit}&cursor={cursor}');
const pet = '{"name":"Biscuit","categoryId":7}';
const create = `${head('POST /v1/pets', `Content-Type: application/json\r\nContent-Length: ${pet.length}\r\n`)}${pet}`;

async function deploy() {
  const keys: string[] = [];
  const keysOfFirst: string[] = [];
  const made = await makeStore(undefined, async (store) => {
    for (let at = 0; at < 16; at++) keys.push(await addAccount(store, `account ${at}`));
    for (let at = 0; at < 7; at++) keysOfFirst.push(await addKey(store.accounts, 'account 0'));
  });
  const { server, port: upstream } = await serve(made, 1, {
    env: { TRUST_PROXY: '127.0.0.1', ALLOWED_HOSTS: 'animals.example.com', LOG_LEVEL: 'warn' },
  });
  const folder = temporaryFolder();
  const port = await findPort();
  launch('nginx', ['-p', folder, '-e', 'stderr', '-c', configureProxy(projectFolder, folder, port, upstream)], {});
  const task = { port, keys, addresses: 250, network: 1, connections: 250, rate: 0, seconds: 3 };
  const ask = async (more: Partial<Task>): Promise<Answers> => {
    const argument = JSON.stringify({ ...task, ...more });
    const { stdout } = await launch(
      process.execPath,
      [`${projectFolder}test/support/open-loop.ts`, argument],
      {},
    ).end();
    return JSON.parse(stdout);
  };
  // What runs for the first time is compiled meanwhile.
  for (const request of [page, create]) await ask({ request, connections: 64 });
  const removeLimit = limitShare(server.pid, 20);
  const [first, other] = keys as [string, string];
  return { ask, server, removeLimit, flood: [first, ...keysOfFirst], other };
}

test('at twice the capacity most of it is served within half a second', async () => {
  const { ask, server, removeLimit } = await deploy();
  for (const [what, request] of Object.entries({ pages: page, creates: create })) {
    const capacity = (await ask({ request })).good / 3;
    const answers = await ask({ request, rate: 2 * capacity, connections: 2000 });
    expect(answers.soon / 3 / capacity, what).toBeGreaterThan(0.4);
    expect(answers.lost, what).toBe(0);
  }
  await server.end('SIGTERM');
  removeLimit();
});

test('an account with 8 keys on 1,000 connections from 250 addresses does not keep another out', async () => {
  const { ask, server, removeLimit, flood, other } = await deploy();
  for (const [what, request] of Object.entries({ pages: page, creates: create })) {
    const flooding = ask({ request, keys: flood, seconds: 5, connections: 1000 });
    await sleep(1000);
    const own = { keys: [other], addresses: 1, network: 2 };
    const [list, creates] = await Promise.all([
      ask({ ...own, request: head('GET /v1/pets'), rate: 20 }),
      ask({ ...own, request: create, rate: 10 }),
    ]);
    await flooding;
    for (const [which, answers] of Object.entries({ list, creates })) {
      // Without the slots for each key, 5 to 10 % are served.
      expect(answers.good / (answers.good + answers.refused), `${which} beside ${what}`).toBeGreaterThan(0.6);
      expect(answers.lost, `${which} beside ${what}`).toBe(0);
    }
  }
  await server.end('SIGTERM');
  removeLimit();
});
