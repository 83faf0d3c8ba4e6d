/** Tells the time that a busy machine adds, so that a test of a time measures the server only. */
import { readFileSync } from 'node:fs';

/** How long the main thread of this process has been ready to run while others had the CPUs, in milliseconds. 0 where Linux does not tell. */
export function waitedForCpuMs(pid: number): number {
  try {
    // https://docs.kernel.org/scheduler/sched-stats.html#proc-pid-schedstat
    return Number(readFileSync(`/proc/${pid}/schedstat`, 'utf8').split(' ')[1]) / 1e6;
  } catch {
    return 0;
  }
}
