/** The memory that this process uses, and its limit. */
import { readFileSync } from 'node:fs';
import { totalmem } from 'node:os';

/**
 * In bytes: what the kernel cannot take back. The resident size has more: pages of files, which the kernel drops before
 * it kills a process. On other systems than Linux it is the resident size.
 */
export function usedMemory(): number {
  try {
    const [, kilobytes] = /^RssAnon:\s+(\d+) kB$/m.exec(readFileSync('/proc/self/status', 'utf8')) ?? [];
    if (kilobytes !== undefined) return Number(kilobytes) * 1024;
  } catch {
    // There is no /proc.
  }
  return process.memoryUsage.rss();
}

/** The limit of the process's control group in bytes; 0 if there is none, for which Node returns more than the machine has. */
export function memoryLimit(): number {
  const limit = process.constrainedMemory();
  return limit < totalmem() ? limit : 0;
}
