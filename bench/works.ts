/** The works that the bench measures, and one round of load: wrk with 32 keep-alive connections, or a client of constant rate. */
import { execFile } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import type { Answers, OpenLoop } from './openloop.ts';
import { onCore, type Running } from './servers.ts';

export interface Work {
  name: string;
  title: string;
  /** Each request's path is a random one of these … */
  starts: string[];
  /** … followed by a random one of these. */
  ends: string[];
  method?: 'POST';
  withoutKey?: boolean;
  /** Animals that another client creates during the load. */
  createsPerSecond?: number;
}

export interface Round {
  /** Processor time of the server's process, user and system, in microseconds per request. */
  time: number;
  /** Requests per second. */
  rate: number;
  /** Responses with an unexpected status, and connection errors. */
  failures: number;
}

/** At most `most` numbers, spread evenly from 1 to `last`. */
const spread = (last: number, most: number) =>
  Array.from({ length: Math.min(last, most) }, (_, index) => 1 + Math.floor(index * Math.max(1, last / most)));

/** Builds cursors directly, although they are opaque to clients: following the pages would read ten million animals first. */
const cursorsOf = (ids: number[]) => ids.map((id) => Buffer.from(`after:${id}`).toString('base64url'));

/** The works on a store of `rows` animals. Its pages are full and have a next one, so creates do not change them. */
export function worksOn(rows: number): Work[] {
  const pet = ['/v1/pets/'];
  const list = { starts: ['/v1/pets'], ends: [''] };
  const statuses = ['', '&status=available', '&status=pending', '&status=sold'];
  const filters = [5, 20, 50, 100].flatMap((limit) =>
    statuses.map((status) => `/v1/pets?limit=${limit}${status}&cursor=`),
  );
  const fifty = { starts: ['/v1/pets?limit=100&cursor='], ends: cursorsOf(spread(rows - 150, 50)) };
  return [
    { name: 'list', title: 'list, the same page of 20', ...list },
    {
      name: 'random',
      title: 'list, random limit, status, cursor',
      starts: filters,
      ends: cursorsOf(spread(rows - 350, 50_000)),
    },
    { name: 'get', title: 'get one animal, random id', starts: pet, ends: spread(rows, 50_000).map(String) },
    { name: 'create', title: 'create, each 201 after its fsync', ...list, method: 'POST' },
    { name: 'none', title: 'no key: 401', ...list, withoutKey: true },
    { name: 'pages', title: '50 pages of 100', ...fifty },
    { name: 'pages-beside-writes', title: '50 pages of 100, 500 creates/s', ...fifty, createsPerSecond: 500 },
  ];
}

async function runClient(program: string, ...args: string[]): Promise<string> {
  const { stdout } = await promisify(execFile)(...onCore(1, [program, ...args]));
  return stdout;
}

/** Runs the client of constant rate. */
export async function runOpenLoop(task: OpenLoop): Promise<Answers> {
  const client = path.join(import.meta.dirname, 'openloop.ts');
  return JSON.parse(await runClient(process.execPath, client, JSON.stringify(task)));
}

const luaList = (values: string[]) => `{${values.map((value) => JSON.stringify(value)).join(',')}}`;

/** A script for wrk, which ends with a line of JSON. wrk counts statuses above 399 as errors. */
const luaOf = ({ starts, ends, method, withoutKey }: Work, key: string) => `
local starts, ends = ${luaList(starts)}, ${luaList(ends)}
math.randomseed(os.time())
${withoutKey ? '' : `wrk.headers['Authorization'] = 'Bearer ${key}'`}
${method ? `wrk.method, wrk.body, wrk.headers['Content-Type'] = 'POST', '{"name":"Biscuit","categoryId":9007199254740993}', 'application/json'` : ''}
local fixed
function request()
  if #starts * #ends > 1 then return wrk.format(nil, starts[math.random(#starts)] .. ends[math.random(#ends)]) end
  fixed = fixed or wrk.format(nil, starts[1] .. ends[1])
  return fixed
end
function done(summary)
  local e = summary.errors
  io.write(string.format('\\n[%d,%d,%d]', summary.requests, e.status, e.connect + e.read + e.write + e.timeout))
end
`;

/** Loads the server for `seconds`. `folder`: for the script of wrk. */
export async function load(server: Running, work: Work, seconds: number, folder: string): Promise<Round> {
  const script = path.join(folder, 'load.lua');
  writeFileSync(script, luaOf(work, server.key));
  const { key, port, rows } = server;
  const { createsPerSecond: rate, withoutKey } = work;
  const creating = rate && runOpenLoop({ port, key, rows, work: 'create', rate, seconds: seconds + 1, connections: 8 });
  const before = server.usedUs();
  const text = await runClient('wrk', '-t1', '-c32', `-d${seconds}s`, '-s', script, `http://127.0.0.1:${port}`);
  const used = server.usedUs() - before;
  const [requests, refused, broken] = JSON.parse(text.slice(text.lastIndexOf('\n'))) as [number, number, number];
  const { refused: failed, lost } = (await creating) || { refused: 0, lost: 0 };
  const failures = broken + failed + lost + (withoutKey ? requests - refused : refused);
  return { time: used / requests, rate: requests / seconds, failures };
}
