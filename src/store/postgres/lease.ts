/**
 * Evidence that no other host has become the primary, without which a read could be stale, and the wait after a promotion, without which others
 * could still read the old primary. docs/decisions/postgres.md has the rule and its proof.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { askTimeline, type Connection, within } from './connection.ts';
import type { Hosts, Primary } from './hosts.ts';
import type { Sql } from './sql.ts';
import type { Host, Target } from './url.ts';

export interface Lease {
  /** Whether the primary may answer a read now. */
  holds: () => boolean;
  /** Resolves when it may. */
  renewed: () => Promise<void>;
  /** Resolves when the commit of a write may be acknowledged; undefined: it may be at once. */
  acknowledgeable: () => Promise<void> | undefined;
  /** How old the evidence is; before the first, the age of the lease. 0 if reads need none. */
  evidenceAgeMs: () => number;
  close: () => void;
}

/** How old evidence may be, from the sending of the question. */
const leaseMs = 1500;

/** How often the hosts are asked: for the lease, and only for a higher timeline. */
const askEveryMs = { lease: 500, primary: 1000 };

const answerWithinMs = 1000;

const ignore = () => undefined;

const unproven = new Error('another host may have become the primary');

/** The server ends what this process cannot. */
const settings = { statement_timeout: answerWithinMs + 200, lock_timeout: answerWithinMs };

/** Names of synchronous_standby_names, which may be quoted. */
const standbyName = /"(?:[^"]|"")*"|[^\s,()"]+/g;

/**
 * Whether each standby that `synchronous_standby_names` lists confirms each commit. Only then does a commit show that none of them has been promoted
 * (https://www.postgresql.org/docs/18/runtime-config-replication.html#GUC-SYNCHRONOUS-STANDBY-NAMES).
 */
export function everyStandbyConfirms(setting: string): boolean {
  const [, first, listed] = /^\s*(?:first\s+)?(\d+)\s*\((.*)\)\s*$/i.exec(setting) ?? [];
  const names: string[] = (listed ?? setting).match(standbyName) ?? [];
  if (names.includes('*') || /^\s*any\b/i.test(setting)) return false;
  return names.length > 0 && names.length === Number(first ?? 1);
}

interface Confirmation {
  names: string;
  commit: string;
}

const confirmation = `
  SELECT current_setting('synchronous_standby_names') AS names, current_setting('synchronous_commit') AS commit,
    pg_logical_emit_message(true, 'animal-store', '')`;

/** Commits something tiny, and resolves to whether each node that could be promoted has confirmed it. */
async function confirm(sql: Sql): Promise<boolean> {
  const [given] = await sql.unsafe<Confirmation[]>(confirmation);
  const [after] = await sql.unsafe<Confirmation[]>(`SELECT current_setting('synchronous_standby_names') AS names`);
  if (!given || given.names !== after?.names) return false;
  return ['on', 'remote_apply'].includes(given.commit) && everyStandbyConfirms(given.names);
}

/** Writes down when the timeline was first seen, and resolves to how long ago that was, in milliseconds. */
async function ageOf(sql: Sql, timeline: number): Promise<number> {
  await sql`INSERT INTO timeline (id) VALUES (${timeline}) ON CONFLICT (id) DO NOTHING`;
  const [row] = await sql<{ age: number }[]>`
    SELECT (extract(epoch FROM clock_timestamp() - first_seen_at) * 1000)::float8 AS age FROM timeline WHERE id = ${timeline}`;
  return row?.age ?? 0;
}

/** Waits until no server can still read the primary that the one of this timeline has replaced. */
export async function waitForOthers(sql: Sql, timeline: number): Promise<void> {
  await sleep(Math.max(0, leaseMs - (await ageOf(sql, timeline))));
}

/** Of a single host, and of hosts that nothing is known to replace. */
export const always: Lease = {
  holds: () => true,
  renewed: async () => undefined,
  acknowledgeable: () => undefined,
  evidenceAgeMs: () => 0,
  close: () => undefined,
};

/** Asks the hosts again and again, and reports a primary with a higher timeline to `hosts`. */
export function startLease({ hosts: all, reads }: Target, hosts: Hosts): Lease {
  if (all.length === 1) return always;
  const probes = new Map<Host, Promise<Connection>>();
  let closed = false;
  const startedAt = performance.now();
  let evidence = { timeline: 0, at: -Infinity };
  let seen = { timeline: 0, acknowledgeFrom: 0 };
  let waiting: (() => void)[] = [];
  let wake: () => void = ignore;
  /** Whether the last evidence was not that every other host is a standby. */
  let hostMissing = false;
  /** Hosts that owe an answer. */
  const asked = new Set<Host>();

  function drop(host: Host): void {
    const probe = probes.get(host);
    probes.delete(host);
    // A commit that waits for a standby would go on waiting.
    probe?.then(({ abandon }) => abandon()).catch(ignore);
  }

  function open(host: Host): Promise<Connection> {
    const probe = hosts.dial(host, settings, () => {
      // Another may have taken its place, and would never be closed.
      if (probes.get(host) === probe) probes.delete(host);
    });
    probes.set(host, probe);
    return probe;
  }

  async function ask<Answer>(host: Host, question: (sql: Sql) => Promise<Answer>): Promise<Answer> {
    // A question that is asked during the close would open a connection that nothing closes.
    if (closed) throw unproven;
    const probe = probes.get(host) ?? open(host);
    try {
      const { sql } = await probe;
      return await within(answerWithinMs, question(sql), 'no answer in time');
    } catch (error) {
      drop(host);
      throw error;
    }
  }

  /** Whether `host` answers that it is a standby; a primary with a higher timeline is reported. False while it owes an earlier answer. */
  async function isStandby(host: Host, known: Primary | undefined): Promise<boolean> {
    if (asked.has(host)) return false;
    asked.add(host);
    try {
      const timeline = await ask(host, askTimeline);
      if (timeline !== undefined && timeline > (known?.timeline ?? 0)) hosts.found(host, timeline);
      return timeline === undefined;
    } catch {
      return false;
    } finally {
      asked.delete(host);
    }
  }

  /** Resolves to when the question was sent, if every other host is a standby. */
  async function proveByStandbys(primary: Primary | undefined): Promise<number> {
    const at = performance.now();
    const others = all.filter((host) => host !== primary?.host);
    const answers = await Promise.all(others.map((host) => isStandby(host, primary)));
    if (answers.includes(false)) throw unproven;
    return at;
  }

  /** Resolves to when the commit was begun, if each node that could be promoted has confirmed it. */
  async function proveByCommit({ host, timeline }: Primary): Promise<number> {
    const at = performance.now();
    const isSame = async (sql: Sql) => (await confirm(sql)) && (await askTimeline(sql)) === timeline;
    if (!(await ask(host, isSame))) throw unproven;
    return at;
  }

  /** At once, and not only with evidence: the wait begins when the timeline is first seen. */
  async function note({ host, timeline }: Primary): Promise<void> {
    const age = await ask(host, (sql) => ageOf(sql, timeline));
    seen = { timeline, acknowledgeFrom: performance.now() + leaseMs - age };
  }

  /** Asks for evidence. A host that is down answers late, so from then on the commit does not wait for it. */
  async function round(): Promise<void> {
    const primary = hosts.primary();
    const standbys = proveByStandbys(primary);
    if (reads === 'primary' || !primary) return void (await standbys);
    const { timeline } = primary;
    if (seen.timeline !== timeline) note(primary).catch(ignore);
    const byStandbys = standbys.then((at) => ({ at, missing: false }));
    const byCommit = () => proveByCommit(primary).then((at) => ({ at, missing: true }));
    const { at, missing } = await (hostMissing ? Promise.any([byStandbys, byCommit()]) : byStandbys.catch(byCommit));
    hostMissing = missing;
    if (hosts.primary()?.timeline !== timeline) return;
    evidence = { timeline, at };
    const resolved = waiting;
    waiting = [];
    for (const resolve of resolved) resolve();
  }

  const holds = () =>
    reads === 'primary' ||
    (evidence.timeline === hosts.primary()?.timeline && performance.now() - evidence.at < leaseMs);

  async function acknowledge(): Promise<void> {
    for (;;) {
      const waitMs = seen.timeline === hosts.primary()?.timeline ? seen.acknowledgeFrom - performance.now() : 10;
      if (waitMs <= 0) return;
      await sleep(waitMs);
    }
  }

  async function keepAsking(): Promise<void> {
    while (!closed) {
      const woken = new Promise<void>((resolve) => (wake = resolve));
      const rest = sleep(askEveryMs[reads], undefined, { ref: false });
      await Promise.race([woken, Promise.all([rest, round().catch(ignore)])]);
    }
  }

  hosts.onMove(() => {
    hostMissing = true;
    wake();
  });
  void keepAsking();
  return {
    holds,
    renewed: () => (holds() ? Promise.resolve() : new Promise((resolve) => waiting.push(resolve))),
    acknowledgeable() {
      const isOld = seen.timeline === hosts.primary()?.timeline && seen.acknowledgeFrom <= performance.now();
      return reads === 'primary' || isOld ? undefined : acknowledge();
    },
    evidenceAgeMs: () => (reads === 'primary' ? 0 : performance.now() - Math.max(startedAt, evidence.at)),
    close() {
      closed = true;
      wake();
      for (const host of all) drop(host);
    },
  };
}
