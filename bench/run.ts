/** npm run bench: the animal store against bare node:http or against itself: with few animals, one process, or the other database; round by round. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { cpus, tmpdir } from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { chooseTool, load, type Tool, workloads } from './load.ts';
import { startPostgres } from './postgres.ts';
import { chart, type Finding, ratio, table } from './report.ts';
import { seed, startBare, startStore } from './servers.ts';

const usage = `npm run bench -- [options]

  --rows N      animals in the store (10000). Beyond 10000: the store with N against the store with 10000
  --rounds N    rounds, each with every workload on both servers in turn (5)
  --seconds N   seconds of load on each server for each workload in each round (3)
  --workers N   the store with N processes against the store with one; nothing is bound to a core
  --engine E    postgres: the store on PostgreSQL against the store on SQLite. With --workers, of as many processes each
  --only A,B    of list, random, get, create, none
  --tool NAME   wrk or autocannon (wrk where it is installed)

Prints a table, and writes it as JSON and as a chart to bench/results.
`;

const baseRows = 10_000;
const ports = [4101, 4102] as const;

const { values } = parseArgs({
  options: {
    rows: { type: 'string', default: String(baseRows) },
    rounds: { type: 'string', default: '5' },
    seconds: { type: 'string', default: '3' },
    workers: { type: 'string', default: '1' },
    engine: { type: 'string', default: 'sqlite' },
    only: { type: 'string' },
    tool: { type: 'string', default: chooseTool() },
    help: { type: 'boolean', default: false },
  },
});
if (values.help) {
  process.stdout.write(usage);
  process.exit(0);
}

const rows = Number(values.rows);
const rounds = Number(values.rounds);
const seconds = Number(values.seconds);
const tool = values.tool as Tool;
const growth = rows > baseRows;
const onPostgres = values.engine === 'postgres';
const several = values.workers !== '1';
const only = values.only?.split(',') ?? (growth ? ['list', 'random', 'get'] : undefined);
const progress = (text: string) => process.stderr.write(`${text}\n`);

const folder = mkdtempSync(path.join(tmpdir(), 'animal-store-bench-'));
const storeFile = path.join(folder, 'store.db');
progress(`filling a store with ${rows.toLocaleString('en')} animals …`);
const key = await seed(storeFile, rows);
const core = several ? undefined : 0;
const database = onPostgres ? await startPostgres(storeFile) : undefined;
const ourEnv = { WORKERS: values.workers, ...(database && { DATABASE_URL: database.databaseUrl }) };
const store = await startStore(storeFile, ports[1], ourEnv, core);

async function startOther(): Promise<{ name: string; server: typeof store; key: string }> {
  if (onPostgres) {
    const server = await startStore(storeFile, ports[0], { WORKERS: values.workers }, core);
    return { name: 'on SQLite', server, key };
  }
  if (several) {
    const alone = path.join(folder, 'alone.db');
    const itsKey = await seed(alone, rows);
    return { name: 'one process', server: await startStore(alone, ports[0], {}, undefined), key: itsKey };
  }
  if (!growth) return { name: 'node:http', server: await startBare(store, key, folder, ports[0]), key };
  const smallFile = path.join(folder, 'small.db');
  const smallKey = await seed(smallFile, baseRows);
  return { name: `${baseRows} animals`, server: await startStore(smallFile, ports[0]), key: smallKey };
}

const other = await startOther();
/** What is put beside `other`, the share of it to reach where that is not the workload's own, and the name of the record. */
function plan(): { ours: string; goal?: number; record: string } {
  if (onPostgres) return { ours: 'on PostgreSQL', goal: 1, record: `postgres${several ? `-${values.workers}` : ''}` };
  if (several) return { ours: `${values.workers} processes`, goal: 1, record: `workers-${values.workers}` };
  if (growth) return { ours: `${rows} animals`, goal: 0.9, record: `rows-${rows}` };
  return { ours: 'animal store', record: 'latest' };
}

const { ours, goal: common, record } = plan();
const names: [string, string] = [other.name, ours];
const chosen = workloads(rows).filter(({ name }) => only?.includes(name) ?? true);
const small = workloads(baseRows);
const findings: Finding[] = chosen.map(({ name, title, goal }) => {
  return { name, title, goal: common ?? goal, bare: [], store: [], failures: 0 };
});

try {
  // Round 0 warms both up and is not counted.
  for (let round = 0; round <= rounds; round++) {
    for (const [index, workload] of chosen.entries()) {
      const finding = findings[index] as Finding;
      const onOther = growth ? (small.find(({ name }) => name === workload.name) ?? workload) : workload;
      const first = await load(tool, other.server.url, onOther, other.key, { seconds, folder, pinned: !several });
      const second = await load(tool, store.url, workload, key, { seconds, folder, pinned: !several });
      finding.failures += first.failures + second.failures;
      if (round === 0) continue;
      finding.bare.push(first.requestsPerSecond);
      finding.store.push(second.requestsPerSecond);
      const share = (second.requestsPerSecond / first.requestsPerSecond).toFixed(2);
      progress(`round ${round} of ${rounds}  ${workload.title.padEnd(36)} ${share} ×`);
    }
  }
  const facts = {
    date: new Date().toISOString().slice(0, 10),
    node: process.version,
    processor: `${cpus().length} × ${cpus()[0]?.model}`,
    tool,
    rows,
    rounds,
    seconds,
    startMs: Math.round(store.startMs),
    memoryMiB: Math.round(store.memoryMiB()),
  };
  process.stdout.write(`\n${table(findings, names)}\n\n`);
  process.stdout.write(`start to first answer ${facts.startMs} ms, memory after the load ${facts.memoryMiB} MiB\n`);
  const results = path.join(import.meta.dirname, 'results');
  mkdirSync(results, { recursive: true });
  const file = path.join(results, record);
  const summary = findings.map((finding) => ({ ...finding, ratio: Math.round(ratio(finding) * 1000) / 1000 }));
  writeFileSync(`${file}.json`, `${JSON.stringify({ ...facts, findings: summary }, null, 2)}\n`);
  const title = `Requests per second, as a share of those of ${record === 'latest' ? 'bare node:http' : other.name}`;
  const caption = `${facts.date}, Node ${facts.node}, ${facts.processor}, ${tool}, median of ${rounds} rounds of ${seconds} s. The mark is the goal.`;
  writeFileSync(`${file}.svg`, chart(findings, title, caption));
} finally {
  await Promise.all([store.stop(), other.server.stop()]);
  await database?.stop();
  rmSync(folder, { recursive: true, force: true });
}
