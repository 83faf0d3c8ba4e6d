/** Runs a server in 256 MiB, as the image and the unit do, and measures it from outside. */
import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import { onTestFinished } from 'vitest';
import { findPort } from '../../support/known-port.ts';
import { type MadeStore, serve } from '../../support/store-file.ts';

const limitBytes = 256 * 1024 * 1024;
const root = '/sys/fs/cgroup';

/** Makes a control group with the limit, of version 1 or 2. Returns the command that starts a program in it, or undefined if this user may not. */
function makeGroup(): string[] | undefined {
  const isFirst = existsSync(`${root}/memory`);
  const group = `${root}/${isFirst ? 'memory/' : ''}animal-test-${process.pid}-${Math.random().toString(36).slice(2)}`;
  try {
    mkdirSync(group);
    // A group that could swap would be slow instead of killed.
    writeFileSync(`${group}/${isFirst ? 'memory.limit_in_bytes' : 'memory.max'}`, String(limitBytes));
  } catch {
    return undefined;
  }
  onTestFinished(() => rmdirSync(group));
  return ['sh', '-c', `echo $$ > ${group}/cgroup.procs; exec "$@"`, '-'];
}

export type Contained = Awaited<ReturnType<typeof serveContained>>;

/** Starts a server on a store. Without a control group, V8 alone is bounded. */
export async function serveContained(made: MadeStore) {
  const group = makeGroup();
  const opsPort = await findPort();
  // At level warn, because the test keeps the log in memory.
  const env = { LOG_LEVEL: 'warn', OPS_PORT: String(opsPort) };
  const served = await serve(
    made,
    1,
    group ? { under: group, env } : { env: { ...env, NODE_OPTIONS: '--max-old-space-size=128' } },
  );
  const { pid } = served.server;
  const inMiB = (name: string) =>
    Math.round(Number(new RegExp(`${name}:\\s+(\\d+)`).exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024);
  return {
    ...served,
    /** The resident memory, and its peak since `forgetPeak`. */
    residentMiB: () => inMiB('VmRSS'),
    peakMiB: () => inMiB('VmHWM'),
    // https://docs.kernel.org/filesystems/proc.html, clear_refs
    forgetPeak: () => writeFileSync(`/proc/${pid}/clear_refs`, '5'),
    /** What is in flight, and the connections. */
    async taken() {
      const text = await (await fetch(`http://127.0.0.1:${opsPort}/metrics`)).text();
      return ['in_flight', 'connections'].map((name) =>
        Number(new RegExp(`^animal_store_${name} (\\S+)$`, 'm').exec(text)?.[1]),
      );
    },
    /** How long the main thread has been ready to run while others had the CPUs, in milliseconds. */
    // https://docs.kernel.org/scheduler/sched-stats.html#proc-pid-schedstat
    waitedForCpuMs: () => Number(readFileSync(`/proc/${pid}/schedstat`, 'utf8').split(' ')[1]) / 1e6,
  };
}
