/** Defines the workloads and runs one round of load with wrk or autocannon: 32 keep-alive connections for some seconds. */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { limits, newPet, onCore } from './servers.ts';

export interface Workload {
  name: string;
  title: string;
  /** The goal, as a share of the baseline's requests per second. */
  goal: number;
  /** Each request's path is a random one of these … */
  starts: string[];
  /** … followed by a random one of these. */
  ends: string[];
  method?: 'POST';
  withoutKey?: boolean;
  /** Animals that another process creates during the load. */
  createsPerSecond?: number;
}

export interface Round {
  requestsPerSecond: number;
  /** Responses with an unexpected status, and connection errors. */
  failures: number;
}

const connections = 32;
const statuses = ['', '&status=available', '&status=pending', '&status=sold'];

/** At most `most` numbers, spread evenly from 1 to `last`. */
function spread(last: number, most: number): number[] {
  const count = Math.min(last, most);
  return Array.from({ length: count }, (_, index) => 1 + Math.floor((index * last) / count));
}

/** Builds cursors directly, although they are opaque to clients: following the pages would read ten million animals first. */
function cursorsOf(ids: number[]): string[] {
  return ids.map((id) => Buffer.from(`after:${id}`).toString('base64url'));
}

export function workloads(rows: number): Workload[] {
  const filters = limits.flatMap((limit) => statuses.map((status) => `/v1/pets?limit=${limit}${status}&cursor=`));
  return [
    { name: 'list', title: 'list, the same page of 20', goal: 0.85, starts: ['/v1/pets'], ends: [''] },
    {
      name: 'random',
      title: 'list, random limit, status, cursor',
      goal: 0.36,
      starts: filters,
      ends: cursorsOf(spread(rows - 150, 50_000)),
    },
    {
      name: 'get',
      title: 'get one animal, random id',
      goal: 0.85,
      starts: ['/v1/pets/'],
      ends: spread(rows, 50_000).map(String),
    },
    {
      name: 'create',
      title: 'create, each 201 after its fsync',
      goal: 0.5,
      starts: ['/v1/pets'],
      ends: [''],
      method: 'POST',
    },
    { name: 'none', title: 'no key: 401', goal: 1, starts: ['/v1/pets'], ends: [''], withoutKey: true },
  ];
}

/** All pages are full and have a next page, so creates do not change them. The goal is a share of the same load without creates. */
export function pagesBesideWrites(rows: number): Workload {
  return {
    name: 'pages-beside-writes',
    title: '50 pages of 100 beside 500 creates/s',
    goal: 0.9,
    starts: ['/v1/pets?limit=100&cursor='],
    ends: cursorsOf(spread(rows - 150, 50)),
    createsPerSecond: 500,
  };
}

export interface LoadOptions {
  seconds: number;
  /** Folder for the tool's files. */
  folder: string;
}

export type Tool = 'wrk' | 'autocannon';

/** Prefers wrk: it uses less of the load's core, so it measures the server rather than itself. */
export function chooseTool(): Tool {
  return spawnSync('wrk', ['-v']).error ? 'autocannon' : 'wrk';
}

function headersOf(
  { withoutKey, method }: Pick<Workload, 'withoutKey' | 'method'>,
  key: string,
): Record<string, string> {
  return {
    ...(!withoutKey && { authorization: `Bearer ${key}` }),
    ...(method && { 'content-type': 'application/json' }),
  };
}

async function output(command: string[]): Promise<string> {
  const [program, args] = onCore(1, command);
  const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  let text = '';
  child.stdout.on('data', (chunk) => {
    text += chunk;
  });
  const [code] = await once(child, 'close');
  if (code !== 0) throw new Error(`${command[0]} ended with ${code}`);
  return text;
}

const luaList = (values: string[]) => `{${values.map((value) => JSON.stringify(value)).join(',')}}`;

async function runWrk(url: string, workload: Workload, key: string, options: LoadOptions): Promise<Round> {
  const { seconds, folder } = options;
  const script = path.join(folder, `${workload.name}.lua`);
  const headers = Object.entries(headersOf(workload, key)).map(
    ([name, value]) => `[${JSON.stringify(name)}]=${JSON.stringify(value)}`,
  );
  const body = workload.method ? `, [==[${newPet}]==]` : '';
  writeFileSync(
    script,
    `local starts, ends, headers = ${luaList(workload.starts)}, ${luaList(workload.ends)}, {${headers.join(',')}}
math.randomseed(os.time())
${
  workload.starts.length * workload.ends.length === 1
    ? `local fixed
function request() fixed = fixed or wrk.format(${JSON.stringify(workload.method ?? 'GET')}, starts[1] .. ends[1], headers${body}); return fixed end`
    : `function request() return wrk.format("GET", starts[math.random(#starts)] .. ends[math.random(#ends)], headers) end`
}
`,
  );
  const text = await output(['wrk', '-t1', `-c${connections}`, `-d${seconds}s`, '-s', script, url]);
  // wrk counts statuses above 399.
  const refused = Number(/Non-2xx or 3xx responses: (\d+)/.exec(text)?.[1] ?? '0');
  const answered = Number(/(\d+) requests in /.exec(text)?.[1]);
  const broken = [...text.matchAll(/(?:connect|read|write|timeout) (\d+)/g)].reduce(
    (sum, [, count]) => sum + Number(count),
    0,
  );
  return {
    requestsPerSecond: Number(/Requests\/sec:\s+([\d.]+)/.exec(text)?.[1]),
    failures: broken + (workload.withoutKey ? answered - refused : refused),
  };
}

async function runAutocannon(url: string, workload: Workload, key: string, options: LoadOptions): Promise<Round> {
  const { seconds, folder } = options;
  const file = path.join(folder, `${workload.name}.json`);
  writeFileSync(
    file,
    JSON.stringify({ url, seconds, connections, workload, headers: headersOf(workload, key), body: newPet }),
  );
  return JSON.parse(
    await output([process.execPath, fileURLToPath(import.meta.resolve('./autocannon.ts')), file]),
  ) as Round;
}

/** Runs `measure` while another process creates animals on the load's core. */
async function besideCreates(
  url: string,
  key: string,
  perSecond: number,
  { seconds }: LoadOptions,
  measure: () => Promise<Round>,
): Promise<Round> {
  // `seconds` stops it if this process dies; normally the kill below does.
  const task = { url, headers: headersOf({ method: 'POST' }, key), body: newPet, perSecond, seconds: 2 * seconds + 10 };
  const script = fileURLToPath(import.meta.resolve('./creates.ts'));
  const [program, args] = onCore(1, [process.execPath, script, JSON.stringify(task)]);
  const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  try {
    await lines.next();
    const round = await measure();
    child.kill();
    const { value: failures } = await lines.next();
    if (failures === undefined) throw new Error('creates.ts exited too early');
    return { ...round, failures: round.failures + Number(failures) };
  } finally {
    child.kill();
  }
}

/** Loads the server at `url` for `options.seconds`. */
export function load(tool: Tool, url: string, workload: Workload, key: string, options: LoadOptions): Promise<Round> {
  const measure = () => (tool === 'wrk' ? runWrk : runAutocannon)(url, workload, key, options);
  const { createsPerSecond } = workload;
  return createsPerSecond === undefined ? measure() : besideCreates(url, key, createsPerSecond, options, measure);
}
