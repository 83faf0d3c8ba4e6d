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
import { create, inBench, runClient, runOpenLoop, seed, start, startPostgres, storeOf } from './servers.ts';

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

interface Work {
  /** Each request's path is a random one of these … */
  starts: string[];
  /** … followed by a random one of these. */
  ends: (string | number)[];
  method?: string;
  withoutKey?: boolean;
  /** Animals that another client creates during the load. */
  creates?: number;
}

/** At most `most` numbers, spread evenly from 1 to `last`. */
const spread = (last: number, most: number) =>
  Array.from({ length: Math.min(last, most) }, (_, index) => 1 + Math.floor(index * Math.max(1, last / most)));

/** Builds cursors directly, although they are opaque to clients: following the pages would read ten million animals first. */
const cursors = (last: number, most: number) =>
  spread(last, most).map((id) => Buffer.from(`after:${id}`).toString('base64url'));

const list = { starts: ['/v1/pets'], ends: [''] };
const statuses = ['', '&status=available', '&status=pending', '&status=sold'];
const filters = [5, 20, 50, 100].flatMap((limit) =>
  statuses.map((status) => `/v1/pets?limit=${limit}${status}&cursor=`),
);
const fifty = { starts: ['/v1/pets?limit=100&cursor='], ends: cursors(rows - 150, 50) };
/** Their pages are full and have a next one, so creates do not change them. */
const works: Record<string, Work> = {
  list,
  random: { starts: filters, ends: cursors(rows - 350, 50_000) },
  get: { starts: ['/v1/pets/'], ends: spread(rows, 50_000) },
  create: { ...list, method: 'POST' },
  none: { ...list, withoutKey: true },
  pages: fifty,
  'pages-beside-writes': { ...fifty, creates: 500 },
};

const luaList = (items: unknown[]) => `{${items.map((item) => JSON.stringify(item)).join()}}`;

/** A script for wrk, which ends with a line of JSON. wrk counts statuses above 399 as errors. */
const luaOf = ({ starts, ends, method = 'GET', withoutKey }: Work, key: string) => `
local starts, ends = ${luaList(starts)}, ${luaList(ends)}
math.randomseed(os.time())
${withoutKey ? '' : `wrk.headers['Authorization'] = 'Bearer ${key}'`}
wrk.method = '${method}'
if wrk.method == 'POST' then wrk.body, wrk.headers['Content-Type'] = '{"name":"Biscuit","categoryId":9007199254740993}', 'application/json' end
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

/** Returns processor time of the server in µs per request, and requests per second. The first second warms up. */
async function load(usedUs: () => number, port: number, key: string, work: Work): Promise<[number, number]> {
  const script = `${folder}/load.lua`;
  writeFileSync(script, luaOf(work, key));
  const wrk = (length: number) =>
    runClient('wrk', '-t1', '-c32', `-d${length}s`, '-s', script, `http://127.0.0.1:${port}`);
  await wrk(1);
  const creates = { port, request: create, keys: [key], addresses: 1, connections: 8, seconds: seconds + 1 };
  const creating = work.creates && runOpenLoop({ ...creates, rate: work.creates });
  const before = usedUs();
  const printed = await wrk(seconds);
  const used = usedUs() - before;
  const [requests, errors, broken] = JSON.parse(printed.slice(printed.lastIndexOf('\n'))) as [number, number, number];
  const { refused, lost } = (await creating) || { refused: 0, lost: 0 };
  const failures = broken + (work.withoutKey ? requests - errors : errors) + refused + lost;
  if (failures > 0) console.error(`${failures} failures`);
  return [used / requests, requests / seconds];
}

/** Makes the stores. The animal store logs as JSON at info to a file next to its store. */
async function makeServers() {
  const database = values.postgres ? await startPostgres() : undefined;
  const commands: [string, string[]][] = [
    ['floor', inBench('floor.ts')],
    ['plain Fastify', inBench('plain.ts')],
    ...[values.source ?? [], projectFolder].flat().map((source): [string, string[]] => [source, storeOf(source)]),
  ];
  const servers = commands.map(async ([name, command], index) => {
    const port = 4101 + index;
    const file = `${folder}/${port}.db`;
    const url = database && index > 0 ? await database(`animals${port}`) : `sqlite:${file}`;
    const { store, keys } = await seed(url, rows, ['bench']);
    await store.close();
    const key = keys[0] as string;
    const env = { KEY: key, DATABASE_URL: url, NODE_COMPILE_CACHE: `${projectFolder}node_modules/.cache/animal-store` };
    return { name, port, key, run: () => start(0, command, port, `${file}.log`, env) };
  });
  return Promise.all(servers);
}

const median = (numbers: number[]) => numbers.sort((a, b) => a - b)[numbers.length >> 1] as number;
const columns = ['µs a request', 'of the floor', 'requests/s', 'of plain Fastify'];

/** Prints medians. Each round is compared with the other servers' same round, so that changes of the machine's speed do not count. */
async function compare(): Promise<void> {
  const servers = await makeServers();
  const found: Record<string, number[][]> = {};
  for (let round = 1; round <= Number(values.rounds); round++) {
    const running: Awaited<ReturnType<typeof start>>[] = [];
    for (const { run } of servers) running.push(await run());
    for (const [name, work] of Object.entries(works)) {
      if (!(values.only ?? name).split(',').includes(name)) continue;
      const measured: [number, number][] = [];
      for (const { port, key } of servers)
        measured.push(await load(running[measured.length]?.usedUs as () => number, port, key, work));
      const [[floor], [, plain]] = measured as [[number], [number, number]];
      for (const [index, [time, rate]] of measured.entries()) {
        const place = `${name}: ${servers[index]?.name}`;
        found[place] ??= [];
        found[place].push([time, time / floor, rate, rate / plain]);
      }
    }
    const { startMs, memoryMiB } = running.at(-1) as (typeof running)[0];
    console.log(`round ${round}: first response after ${Math.round(startMs)} ms, ${Math.round(memoryMiB())} MiB`);
    for (const { stop } of running) await stop();
  }
  const lines = Object.entries(found).map(([name, own]) => [
    name,
    Object.fromEntries(
      columns.map((title, column) => [
        title,
        Number(median(own.map((round) => round[column] as number)).toPrecision(3)),
      ]),
    ),
  ]);
  console.table(Object.fromEntries(lines));
}

try {
  await compare();
} finally {
  rmSync(folder, { recursive: true, force: true });
}
