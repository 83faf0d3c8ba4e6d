/** Tests that no 201 is sent before its fsync, from the order of the server's system calls in strace's log. */
import { beforeEach, expect, test } from 'vitest';
import type { DiskEvent } from '../../support/disk-trace.ts';
import { plant } from '../../support/plant.ts';
import { needStrace } from '../../support/strace.ts';
import { figure, patientMs } from '../../support/tier.ts';
import { type TracedLoad, traceLoad } from '../../support/traced-load.ts';

type Write = Extract<DiskEvent, { kind: 'write' }>;

// https://sqlite.org/fileformat2.html#walformat. SQLite writes a frame's header and its page one after the other.
const frameHeaderBytes = 24;

/** Name of each pet → the line of the trace where its commit was completely written. */
function commitsOf(writes: Write[]): Map<string, number> {
  const commits = new Map<string, number>();
  let pending: string[] = [];
  let isLastPage = false;
  for (const { bytes, done } of writes) {
    if (bytes.length === frameHeaderBytes) {
      // Only the last frame of a commit holds the size of the database.
      isLastPage = bytes.readUInt32BE(4) > 0;
      continue;
    }
    pending.push(...(bytes.toString('latin1').match(/animal-\d+\./g) ?? []));
    if (!isLastPage) continue;
    for (const name of pending) if (!commits.has(name)) commits.set(name, done);
    pending = [];
    isLastPage = false;
  }
  return commits;
}

/** Names of pets acknowledged too early: before the end of an fsync of the WAL that began after their commit was written. */
function tooEarly({ folder, events }: TracedLoad): { answered: number; commits: number; early: string[] } {
  const wal = `${folder}/store.db-wal`;
  const commits = commitsOf(events.filter((event): event is Write => event.kind === 'write' && event.file === wal));
  const syncs = events.filter((event) => event.kind === 'sync' && event.file === wal);
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
  'each 201 for 600 concurrent POSTs is sent after the fsync that covers its pet',
  async () => {
    const { answered, commits, early } = tooEarly(await traceLoad(load));
    figure(`fsync: ${answered} concurrent POSTs in ${commits} commits, ${early.length} answered before their fsync`);
    expect(answered).toBe(600);
    expect(early).toEqual([]);
  },
  patientMs,
);

test(
  'the test detects a server with synchronous=NORMAL',
  async () => {
    const source = plant('src/store/sqlite/connection.ts', 'synchronous = FULL', 'synchronous = NORMAL');
    const { answered, early } = tooEarly(await traceLoad({ ...load, source }));
    figure(`fsync, with planted synchronous=NORMAL: ${early.length} of ${answered} answered before their fsync`);
    expect(early.length).toBeGreaterThan(0);
  },
  patientMs,
);
