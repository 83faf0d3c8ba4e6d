/** No 201 before its fsync: the order of the server's system calls, as strace saw it. */
import { beforeEach, expect, test } from 'vitest';
import type { DiskEvent } from '../support/disk-trace.ts';
import { plant } from '../support/plant.ts';
import { needStrace } from '../support/strace.ts';
import { figure, patientMs } from '../support/tier.ts';
import { type TracedLoad, traceLoad } from '../support/traced-load.ts';

type Write = Extract<DiskEvent, { kind: 'write' }>;

// https://sqlite.org/fileformat2.html#walformat. SQLite writes a frame's header and its page one after the other.
const frameHeaderBytes = 24;

/** Name of each animal → the place in the trace where the commit that brought it was wholly written. */
function commitsOf(writes: Write[]): Map<string, number> {
  const commits = new Map<string, number>();
  let brought: string[] = [];
  let isLastPage = false;
  for (const { bytes, done } of writes) {
    if (bytes.length === frameHeaderBytes) {
      // The last frame of a commit, and no other, has the size of the database.
      isLastPage = bytes.readUInt32BE(4) > 0;
      continue;
    }
    brought.push(...(bytes.toString('latin1').match(/animal-\d+\./g) ?? []));
    if (!isLastPage) continue;
    for (const name of brought) if (!commits.has(name)) commits.set(name, done);
    brought = [];
    isLastPage = false;
  }
  return commits;
}

/** The animals that were acknowledged before an fsync of the write-ahead log, begun after their commit was written, was done. */
function tooEarly({ folder, events }: TracedLoad): { answered: number; commits: number; early: string[] } {
  const log = `${folder}/store.db-wal`;
  const commits = commitsOf(events.filter((event): event is Write => event.kind === 'write' && event.file === log));
  const syncs = events.filter((event) => event.kind === 'sync' && event.file === log);
  const answers = events.flatMap((event) => {
    return event.kind === 'answer' ? event.promised.map(([name]) => ({ name, sent: event.begun })) : [];
  });
  const early = answers.filter(({ name, sent }) => {
    const written = commits.get(name) ?? Number.POSITIVE_INFINITY;
    return !syncs.some(({ begun, done }) => begun > written && done < sent);
  });
  return {
    answered: answers.length,
    commits: new Set(commits.values()).size,
    early: early.map(({ name }) => name),
  };
}

const load = { animals: 600, connections: 600 };

beforeEach(needStrace);

test(
  'each 201 to 600 concurrent additions leaves after the fsync that covers its row',
  async () => {
    const { answered, commits, early } = tooEarly(await traceLoad(load));
    figure(`fsync: ${answered} concurrent POSTs in ${commits} commits, ${early.length} answered before their fsync`);
    expect(answered).toBe(600);
    expect(early).toEqual([]);
  },
  patientMs,
);

test(
  'a server with synchronous=NORMAL is found out',
  async () => {
    const source = plant('src/repository/sqlite/connection.ts', 'synchronous = FULL', 'synchronous = NORMAL');
    const { answered, early } = tooEarly(await traceLoad({ ...load, source }));
    figure(`fsync, with synchronous=NORMAL planted: ${early.length} of ${answered} answered before their fsync`);
    expect(early.length).toBeGreaterThan(0);
  },
  patientMs,
);
