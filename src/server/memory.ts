/** The memory that this process uses, and its limit. */
import { readFileSync } from 'node:fs';
import { totalmem } from 'node:os';
import type { Metrics } from '../http/metrics.ts';

/**
 * The memory in bytes that the kernel cannot take back. The resident size also has pages of files, which the kernel drops before it kills a process. On other
 * systems than Linux it is the resident size.
 */
function usedMemory(): number {
  try {
    const [, kilobytes] = /^RssAnon:\s+(\d+) kB$/m.exec(readFileSync('/proc/self/status', 'utf8')) ?? [];
    if (kilobytes !== undefined) return Number(kilobytes) * 1024;
  } catch {
    // There is no /proc.
  }
  return process.memoryUsage.rss();
}

export function addMemory({ add }: Metrics): void {
  // Of the process's control group. If it has none, Node returns more than the machine has.
  const limit = process.constrainedMemory();
  add('animal_store_memory_bytes', 'Memory that the kernel cannot take back.', usedMemory);
  add('animal_store_memory_limit_bytes', 'Limit of the memory; 0 if there is none.', () =>
    limit < totalmem() ? limit : 0,
  );
}
