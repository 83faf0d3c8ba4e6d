/**
 * npm run bench: the processor time and the rate of requests of the animal store, beside the framework's floor and plain Fastify. Needs Linux with
 * taskset and wrk. Options, with their defaults:
 *
 *   --rows 10000     animals in each store
 *   --rounds 3       each starts all servers anew, because one process can be 25 % faster than another
 *   --seconds 3      of each load
 *   --only a,b       of list, random, get, create, none, pages, pages-beside-writes
 *   --postgres       the animal store and plain Fastify are on PostgreSQL
 *   --source folder  another checkout, which is measured, too
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { parseArgs } from 'node:util';
import { projectFolder } from '../test/support/project.ts';
import { create, runClient, runOpenLoop, seed, start, startPostgres, storeOf } from './servers.ts';

const { values } = parseArgs({
  options: {
    rows: { type: 'string', default: '10000' },
    rounds: { type: 'string', default: '3' },
    seconds: { type: 'string', default: '3' },
    only: { type: 'string' },
    postgres: { type: 'boolean' },
    source: { type: 'string' },
  },
});
const rows = Number(values.rows);
const seconds = Number(values.seconds);
const folder = mkdtempSync(`${tmpdir()}/animal-store-bench-`);

/** At most `most` numbers, spread evenly from 1 to `last`. */
const spread = (last: number, most: number) =>
  Array.from({ length: Math.min(last, most) }, (_, index) => 1 + Math.floor(index * Math.max(1, last / most)));

/** Builds cursors directly, although they are opaque to clients: following the pages would read ten million animals first. */
const cursors = (last: number, most: number) =>
  spread(last, most).map((id) => Buffer.from(`after:${id}`).toString('base64url'));

const list = [['/v1/pets'], ['']];
const statuses = ['', '&status=available', '&status=pending', '&status=sold'];
const filters = [5, 20, 50, 100].flatMap((limit) =>
  statuses.map((status) => `/v1/pets?limit=${limit}${status}&cursor=`),
);
const fifty = [['/v1/pets?limit=100&cursor='], cursors(rows - 150, 50)];
/** How the paths of each work begin and end. Its pages are full and have a next one, so creates do not change them. */
const works = {
  list,
  random: [filters, cursors(rows - 350, 50_000)],
  get: [['/v1/pets/'], spread(rows, 50_000)],
  create: list,
  none: list,
  pages: fifty,
  'pages-beside-writes': fifty,
};

/** A script for wrk, which ends with a line of JSON. wrk counts statuses above 399 as errors. */
const scriptOf = (work: string, lists: unknown[][], key: string) => `
${['starts', 'ends'].map((name, at) => `local ${name} = {${lists[at]?.map((text) => JSON.stringify(text))}}`).join('\n')}
math.randomseed(os.time())
${work === 'none' ? '' : `wrk.headers['Authorization'] = 'Bearer ${key}'`}
if '${work}' == 'create' then
  wrk.method, wrk.body, wrk.headers['Content-Type'] = 'POST', '{"name":"Biscuit","categoryId":9007199254740993}', 'application/json'
end
local fixed
function request()
  local format = fixed or wrk.format(nil, starts[math.random(#starts)] .. ends[math.random(#ends)])
  fixed = #starts * #ends == 1 and format
  return format
end
function done(summary)
  local e = summary.errors
  io.write(string.format('\\n[%d,%d,%d]', summary.requests, e.status, e.connect + e.read + e.write + e.timeout))
end
`;

const database = values.postgres ? await startPostgres() : undefined;

/** Makes the stores. The animal store logs as JSON at info to a file next to its store. */
async function makeServers() {
  const ofBench = (name: string): [string, string[]] => [name, [process.execPath, `${projectFolder}bench/${name}.ts`]];
  const ofSource = (source: string): [string, string[]] => [source, storeOf(source)];
  const stores = [values.source ?? [], projectFolder].flat().map(ofSource);
  const servers = [ofBench('floor'), ofBench('plain'), ...stores].map(async ([name, command], index) => {
    const port = 4101 + index;
    const file = `${folder}/${port}.db`;
    const url = database && index > 0 ? await database.create(`animals${port}`) : `sqlite:${file}`;
    const { store, keys } = await seed(url, rows, ['bench']);
    await store.close();
    const [key = ''] = keys;
    const env = { KEY: key, DATABASE_URL: url, NODE_COMPILE_CACHE: `${projectFolder}node_modules/.cache/animal-store` };
    return { name, key, run: () => start(0, command, port, `${file}.log`, env) };
  });
  return Promise.all(servers);
}

type Running = { key: string } & Awaited<ReturnType<typeof start>>;

/** Returns processor time of the server in µs per request, and requests per second. The first second warms up. */
async function load({ port, key, usedUs }: Running, work: string, lists: unknown[][]) {
  const script = `${folder}/load.lua`;
  writeFileSync(script, scriptOf(work, lists, key));
  const wrk = (length: number) =>
    runClient('wrk', '-t1', '-c32', `-d${length}s`, '-s', script, `http://127.0.0.1:${port}`);
  await wrk(1);
  const creates = { port, request: create, keys: [key], connections: 8, rate: 500, seconds: seconds + 1 };
  const creating = work === 'pages-beside-writes' ? runOpenLoop(creates) : { refused: 0, lost: 0 };
  const before = usedUs();
  const printed = await wrk(seconds);
  const used = usedUs() - before;
  const [requests, errors, broken] = JSON.parse(printed.slice(printed.lastIndexOf('\n'))) as [number, number, number];
  const { refused, lost } = await creating;
  const failures = broken + (work === 'none' ? requests - errors : errors) + refused + lost;
  if (failures > 0) console.error(`${failures} failures`);
  return [used / requests, requests / seconds] as const;
}

const columns = ['µs a request', 'of the floor', 'requests/s', 'of plain Fastify'];

/** Prints medians. Each round is compared with the other servers' same round, so that changes of the machine's speed do not count. */
async function compare() {
  const servers = await makeServers();
  const found: Record<string, number[][]> = {};
  for (let round = 1; round <= Number(values.rounds); round++) {
    const running: Running[] = [];
    for (const { key, run } of servers) running.push({ key, ...(await run()) });
    for (const [work, lists] of Object.entries(works)) {
      if (!(values.only ?? work).split(',').includes(work)) continue;
      const measured: (readonly [number, number])[] = [];
      for (const server of running) measured.push(await load(server, work, lists));
      const [[floor], [, plain]] = measured as [[number], [number, number]];
      for (const [index, [time, rate]] of measured.entries()) {
        const place = `${work}: ${servers[index]?.name}`;
        found[place] ??= [];
        found[place].push([time, time / floor, rate, rate / plain]);
      }
    }
    const { startMs = 0, memoryMiB = Number } = running.at(-1) ?? {};
    console.log(`round ${round}: first response after ${Math.round(startMs)} ms, ${Math.round(memoryMiB())} MiB`);
    for (const { stop } of running) await stop();
  }
  const median = (numbers: number[]) => numbers.sort((a, b) => a - b)[numbers.length >> 1]?.toPrecision(3);
  const lines = Object.entries(found).map(([name, rounds]) => {
    const medians = columns.map((title, at) => [title, Number(median(rounds.map((round) => round[at] as number)))]);
    return [name, Object.fromEntries(medians)];
  });
  console.table(Object.fromEntries(lines));
}

try {
  await compare();
} finally {
  await database?.stop();
  rmSync(folder, { recursive: true, force: true });
}
