/** npm run bench: the processor time and the rate of requests of the animal store, beside the framework's floor and plain Fastify. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { measureOverload } from './overload.ts';
import { type Finding, median, table } from './report.ts';
import { baseRows, type Running, startServers } from './servers.ts';
import { load, type Work, worksOn } from './works.ts';

const usage = `npm run bench -- [options]

  --rows N      animals in the store (10000). Above 10000: compares a store of N with one of 10000
  --rounds N    rounds; each runs every work on every server in turn (5)
  --seconds N   seconds of load per server, work and round (3)
  --starts N    repeats all rounds with newly started servers (1): one process can be 25 % faster than another
  --engine E    postgres: the animal store and plain Fastify are on PostgreSQL
  --only A,B    works: list, random, get, create, none, pages, pages-beside-writes
  --overload    instead: a client of constant rate, at 0.9 to 4 times the capacity; random and create, or one of them

Needs Linux with taskset and wrk. Prints medians, with the least and the greatest round in parentheses.
`;

const string = { type: 'string' } as const;
const flag = { type: 'boolean' } as const;
const { values } = parseArgs({
  options: {
    rows: string,
    rounds: string,
    seconds: string,
    starts: string,
    engine: string,
    only: string,
    overload: flag,
    help: flag,
  },
});
const { rows: rowsText = baseRows, rounds = 5, seconds: secondsText = 3, starts = 1, engine } = values;
const rows = Number(rowsText);
const seconds = Number(secondsText);
const only = values.only?.split(',') ?? (rows > baseRows ? ['list', 'random', 'get'] : undefined);
const isChosen = (name: string) => only?.includes(name) ?? true;
const folder = mkdtempSync(path.join(tmpdir(), 'animal-store-bench-'));
const findings: Finding[] = worksOn(rows)
  .filter(({ name }) => isChosen(name))
  .map(({ name, title }) => ({ name, title, rounds: {} }));

/** Round 0 warms up and does not count. */
async function runRounds(servers: Running[]): Promise<void> {
  for (let round = 0; round <= Number(rounds); round++)
    for (const finding of findings) {
      process.stderr.write(`round ${round} of ${rounds}: ${finding.title}\n`);
      for (const server of servers) {
        const work = worksOn(server.rows).find(({ name }) => name === finding.name) as Work;
        const measured = await load(server, work, seconds, folder);
        finding.rounds[server.name] ??= [];
        if (round > 0) finding.rounds[server.name]?.push(measured);
      }
    }
}

async function compare(): Promise<void> {
  const startsMs: number[] = [];
  const memories: number[] = [];
  for (let start = 0; start < Number(starts); start++) {
    const { servers, stop } = await startServers(rows, engine, mkdtempSync(path.join(folder, 'start-')));
    const store = servers.at(-1) as Running;
    try {
      await runRounds(servers);
      startsMs.push(store.startMs);
      memories.push(store.memoryMiB());
    } finally {
      await stop();
    }
  }
  console.log(`${table(findings)}\n
start to first response ${median(startsMs).toFixed(0)} ms, memory after the load ${median(memories).toFixed(0)} MiB`);
}

try {
  if (values.help) console.log(usage);
  else if (values.overload) await measureOverload(folder, { engine, seconds, isChosen });
  else await compare();
} finally {
  rmSync(folder, { recursive: true, force: true });
}
