/** npm run bench: measures the animal store, round by round, against bare node:http and plain Fastify, or against another setup of itself. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { cpus, tmpdir } from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { chooseTool, load, type Tool, type Workload } from './load.ts';
import { baseRows, type Contender, chooseMode } from './modes.ts';
import { measureOverload } from './overload.ts';
import { chart, type Finding, median, ratios, table } from './report.ts';
import { createSeeds } from './servers.ts';

const usage = `npm run bench -- [options]

  --rows N      animals in the store (10000). Above 10000: compares the store with N against the store with 10000
  --rounds N    rounds; each runs every workload on every server in turn (5)
  --seconds N   seconds of load per server, workload and round (3)
  --starts N    repeats all rounds with newly started servers, and pools the results (1). On a shared machine, one process
                can be 25 % faster than another with the same code
  --engine E    postgres: compares the store on PostgreSQL against plain Fastify with pg, and the store on SQLite; with --rows
                above 10000 against itself, as above
  --only A,B    workloads: list, random, get, create, none; without --rows and --engine, also pages-beside-writes
  --overload    instead: a client of constant rate, at 0.9 to 4 times the capacity, with 400 to 4,500 connections; on the
                engine of --engine, random and create or one of them
  --tool NAME   wrk or autocannon (default: wrk if it is installed)

Prints a table, and writes the results as JSON and as an SVG chart to bench/results.
`;

const { values } = parseArgs({
  options: {
    rows: { type: 'string', default: String(baseRows) },
    rounds: { type: 'string', default: '5' },
    seconds: { type: 'string', default: '3' },
    starts: { type: 'string', default: '1' },
    engine: { type: 'string', default: 'sqlite' },
    only: { type: 'string' },
    overload: { type: 'boolean', default: false },
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
const starts = Number(values.starts);
const tool = values.tool as Tool;
const only = values.only?.split(',') ?? (rows > baseRows ? ['list', 'random', 'get'] : undefined);
const progress = (text: string) => process.stderr.write(`${text}\n`);

const folder = mkdtempSync(path.join(tmpdir(), 'animal-store-bench-'));
if (values.overload) {
  const print = (line: string) => void process.stdout.write(`${line}\n`);
  const works = (['random', 'create'] as const).filter((work) => only?.includes(work) ?? true);
  await measureOverload(folder, createSeeds(folder), { engine: values.engine, works, seconds, print }).finally(() =>
    rmSync(folder, { recursive: true }),
  );
  process.exit(0);
}
const mode = chooseMode({ rows, engine: values.engine }, createSeeds(folder));
const chosen = mode.workloads.filter(({ name }) => only?.includes(name) ?? true);
const findings: Finding[] = chosen.map(({ name, title, goal }) => ({ name, title, goal, rounds: {}, failures: 0 }));
const startsMs: number[] = [];
const memoriesMiB: number[] = [];
let names: string[] = [];

/** The servers to load, in order. A workload with concurrent creates is compared with the same workload without them. */
function turns(contenders: Contender[], workload: Workload): (Contender & { workload: Workload })[] {
  const { createsPerSecond, ...alone } = workload;
  if (createsPerSecond === undefined)
    return contenders.map((contender) => {
      const own = contender.workloads?.find(({ name }) => name === workload.name);
      return { ...contender, workload: own ?? workload };
    });
  const store = contenders.at(-1) as Contender;
  return [
    { ...store, name: `${store.name} without the creates`, workload: alone },
    { ...store, workload },
  ];
}

async function measure(contenders: Contender[], begun: string): Promise<void> {
  // Round 0 is a warm-up and is not counted.
  for (let round = 0; round <= rounds; round++) {
    for (const [index, workload] of chosen.entries()) {
      const finding = findings[index] as Finding;
      for (const { name, server, key, workload: own } of turns(contenders, workload)) {
        const { requestsPerSecond, failures } = await load(tool, server.url, own, key, { seconds, folder });
        finding.failures += failures;
        if (round > 0) finding.rounds[name] = [...(finding.rounds[name] ?? []), requestsPerSecond];
      }
      const [baseline, ...others] = Object.values(finding.rounds).map((rates) => rates.at(-1) as number);
      const shares = others.map((rate) => `${(rate / (baseline as number)).toFixed(2)} ×`);
      if (round > 0) progress(`${begun}round ${round} of ${rounds}  ${workload.title.padEnd(36)} ${shares.join('  ')}`);
    }
  }
}

try {
  progress(`filling a store with ${rows.toLocaleString('en')} animals …`);
  for (let start = 1; start <= starts; start++) {
    const files = mkdtempSync(path.join(folder, 'start-'));
    const contenders = await mode.start(files);
    const store = contenders.at(-1) as Contender;
    names = contenders.map(({ name }) => name);
    try {
      await measure(contenders, starts > 1 ? `start ${start} of ${starts}, ` : '');
      startsMs.push(store.server.startMs);
      memoriesMiB.push(store.server.memoryMiB());
    } finally {
      await Promise.all(contenders.map(({ server }) => server.stop()));
      rmSync(files, { recursive: true, force: true });
    }
  }
  const facts = {
    date: new Date().toISOString().slice(0, 10),
    node: process.version,
    processor: `${cpus().length} × ${cpus()[0]?.model}`,
    tool,
    rows,
    starts,
    rounds,
    seconds,
    startMs: Math.round(median(startsMs)),
    memoryMiB: Math.round(median(memoriesMiB)),
  };
  process.stdout.write(`\n${table(findings, names)}\n\n`);
  process.stdout.write(`start to first response ${facts.startMs} ms, memory after the load ${facts.memoryMiB} MiB\n`);
  const results = path.join(import.meta.dirname, 'results');
  mkdirSync(results, { recursive: true });
  const file = path.join(results, mode.record);
  const rounded = (value: number) => Math.round(value * 1000) / 1000;
  const summary = findings.map((finding) => ({
    ...finding,
    ratios: Object.fromEntries(Object.entries(ratios(finding)).map(([name, value]) => [name, rounded(value)])),
  }));
  writeFileSync(`${file}.json`, `${JSON.stringify({ ...facts, findings: summary }, null, 2)}\n`);
  const title = `Requests per second, as a share of those of ${mode.record === 'latest' ? 'bare node:http' : names[0]}`;
  const often = starts > 1 ? `${starts} starts of ${rounds} rounds` : `${rounds} rounds`;
  const caption = `${facts.date}, Node ${facts.node}, ${facts.processor}, ${tool}, median of ${often} of ${seconds} s. The mark is the goal.`;
  writeFileSync(`${file}.svg`, chart(findings, names, title, caption));
} finally {
  rmSync(folder, { recursive: true, force: true });
}
