/**
 * node bench/overload.ts [checkout [seconds [overload or fairness]]]: what a server answers as deployed, behind deploy/nginx.conf without TLS, at
 * several times its capacity, and what another account gets beside loads of one kind. The server has one core, nginx and the clients the other.
 * Needs Linux with taskset, nginx, strace and cgroups, and root.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { newToken } from '../src/core/people.ts';
import { configureProxy, limitShare } from '../test/support/as-deployed.ts';
import type { Answers, Task } from '../test/support/open-loop.ts';
import { projectFolder } from '../test/support/project.ts';
import { injecting } from '../test/support/strace.ts';
import { create, requestOf, runOpenLoop, seed, start, storeOf } from './servers.ts';

const [source = projectFolder, given = 5, only] = process.argv.slice(2);
const seconds = Number(given);
const folder = mkdtempSync(`${tmpdir()}/animal-store-bench-`);
const file = `${folder}/animals.db`;
const serverPort = 4201;
const port = 4203;

/** Starts the server, which has a share of a core, and nginx, and stops them after the measurement. `under`: a command line around the server. */
async function deployed(percent: number, measure: () => Promise<void>, under: string[] = []) {
  const env = { DATABASE_URL: `sqlite:${file}`, TRUST_PROXY: '127.0.0.1', SIGN_UP: 'open' };
  const server = await start(0, [...under, ...storeOf(source)], serverPort, `${file}.log`, env);
  const nginx = ['nginx', '-p', folder, '-e', 'stderr', '-c', configureProxy(source, folder, port, serverPort)];
  const proxy = await start(1, nginx, port, `${folder}/nginx.log`);
  const removeLimit = limitShare(server.pid, percent);
  console.log(`${source}, ${percent} % of a core; times in ms`);
  try {
    await measure();
  } finally {
    await proxy.stop();
    await server.stop();
    removeLimit();
  }
}

const accounts = Array.from({ length: 16 }, (_, index) => `account-${index}`);
const { store, keys: all } = await seed(`sqlite:${file}`, 10_000, [...accounts, 'other', ...Array(50).fill('flood')]);
const [keys, other, flood] = [all.slice(0, 16), all.slice(16, 17), all.slice(17)];
for (let count = 0; count < 100; count++)
  await store.pets.add({ name: '\u{1f43e}'.repeat(1000), categoryId: 7n, status: 'available' });
// Nobody signs in with its password.
const { id } = (await store.people.signUp('person', 'hash')) as { id: number };
const { token, hash } = newToken();
await store.people.addSession(hash, id, 'hash');
await store.close();

const page = requestOf('GET /v1/pets?limit={limit}&cursor={cursor}');
const large = requestOf(`GET /v1/pets?limit=100&cursor=${Buffer.from('after:10000').toString('base64url')}`);
const account = requestOf('GET /account', '', 'Cookie: session-80={key}');
const form = 'name={number}&password=seven+otters+sing';
const signIn = requestOf('POST /account/sign-in', form, 'Sec-Fetch-Site: same-origin', 'x-www-form-urlencoded');

const describe = ({ good, p50, p99, refused, refusedP99, lost, late }: Answers) =>
  `${good} 2xx, p50 ${p50}, p99 ${p99}; ${refused} refused, p99 ${refusedP99}; ${lost} lost; client late ${late} times`;

/** 2,000 connections of 16 accounts. The capacity is the rate of 2xx with 64 or 256 connections. */
async function overload() {
  for (const [work, request] of Object.entries({ creates: create, pages: page })) {
    const load = { port, request, keys, seconds };
    const few = [await runOpenLoop({ ...load, connections: 64 }), await runOpenLoop(load)];
    const capacity = Math.max(...few.map(({ good }) => good)) / seconds;
    for (const factor of [2, 4]) {
      const answers = await runOpenLoop({ ...load, rate: factor * capacity, connections: 2000 });
      const share = Math.round((100 * answers.soon) / seconds / capacity);
      console.log(`${work}, ${factor} × ${Math.round(capacity)}/s: ${share} % within 500 ms; ${describe(answers)}`);
    }
  }
}

/** What another account gets, which lists 20 times and creates 10 times a second, beside a load. */
async function beside(name: string, request: string, some: string[], more: Partial<Task> = {}) {
  const loading = runOpenLoop({ port, request, keys: some, seconds: seconds + 2, ...more });
  await sleep(1000);
  const own = { port, keys: other, addresses: 1, network: 2, seconds };
  const [list, creates, load] = await Promise.all([
    runOpenLoop({ ...own, request: requestOf('GET /v1/pets'), rate: 20 }),
    runOpenLoop({ ...own, request: create, rate: 10 }),
    loading,
  ]);
  console.log(`beside ${name}: ${describe(load)}\n  list: ${describe(list)}\n  create: ${describe(creates)}`);
}

async function fairness() {
  // The first requests of a process are compiled while they run, which takes seconds with a fifth of a core.
  for (const request of [page, create]) await runOpenLoop({ port, request, keys, seconds: 3, connections: 64 });
  await beside('8 keys from 250 addresses, pages', page, flood.slice(0, 8));
  await beside('8 keys from 250 addresses, creates', create, flood.slice(0, 8));
  await beside('1 key from 250 addresses', page, flood.slice(0, 1));
  await beside('50 keys from 1 address', page, flood, { addresses: 1 });
  await beside('50 keys from 250 addresses', page, flood);
  await beside('1 session from 250 addresses', account, [token]);
  await beside('60 sign-ins', signIn, keys, { connections: 60 });
  await beside('200 slow readers of 400 KB', large, keys, { connections: 200, addresses: 2, slow: true });
}

const hanging = () => beside('200 creates, each fsync takes 1 s', create, keys.slice(0, 8), { connections: 200 });
const slowly = injecting('fsync,fdatasync', 'delay_exit=1s', file, `${file}-wal`);
try {
  for (const percent of [20, 100]) {
    if (only !== 'fairness') await deployed(percent, overload);
    if (only !== 'overload') await deployed(percent, fairness);
  }
  if (only !== 'overload') await deployed(100, hanging, slowly);
} finally {
  rmSync(folder, { recursive: true, force: true });
}
