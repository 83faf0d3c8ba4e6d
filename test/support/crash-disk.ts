/** A disk whose power may fail: what was synced is on it for certain, what was not may be, in whole or in parts. */
import { closeSync, ftruncateSync, openSync, readdirSync, rmSync, writeSync } from 'node:fs';
import path from 'node:path';
import type { Change, DiskEvent } from './disk-trace.ts';

/** What becomes of that which was not synced: none of it, a random part of it, all of it. */
export type Survival = 'none' | 'some' | 'all';

/** Disks write a sector whole or not at all. */
const sectorBytes = 512;

type Edit = Extract<Change, { kind: 'write' | 'truncate' }> & { done: number };

interface Content {
  bytes: Buffer;
  size: number;
  unsynced: Edit[];
}

/** A name that appears, or one that goes (undefined). File systems keep the order of such changes: of the unsynced, the first few survive. */
interface Naming {
  name: string;
  content: Content | undefined;
  done: number;
}

export interface CrashDisk {
  apply: (event: DiskEvent) => void;
  /** Writes the files into `folder`, as they may be found after a power loss now. `random` gives numbers from 0 up to 1. */
  restore: (folder: string, survival: Survival, random: () => number) => void;
}

function settle(content: Content, edit: Edit): void {
  const end = edit.kind === 'write' ? edit.offset + edit.bytes.length : edit.size;
  if (end > content.bytes.length) {
    const larger = Buffer.alloc(2 * end);
    content.bytes.copy(larger, 0, 0, content.size);
    content.bytes = larger;
  }
  if (edit.kind === 'write') edit.bytes.copy(content.bytes, edit.offset);
  else content.bytes.fill(0, end, Math.max(end, content.size));
  content.size = edit.kind === 'write' ? Math.max(content.size, end) : end;
}

function writeFile(file: string, { bytes, size, unsynced }: Content, survives: () => boolean): void {
  const descriptor = openSync(file, 'w');
  writeSync(descriptor, bytes, 0, size, 0);
  for (const edit of unsynced) {
    if (edit.kind === 'truncate') {
      if (survives()) ftruncateSync(descriptor, edit.size);
      continue;
    }
    for (let from = 0; from < edit.bytes.length; ) {
      // Up to the end of the disk's sector, wherever in it the write begins.
      const length = Math.min(edit.bytes.length - from, sectorBytes - ((edit.offset + from) % sectorBytes));
      if (survives()) writeSync(descriptor, edit.bytes, from, length, edit.offset + from);
      from += length;
    }
  }
  closeSync(descriptor);
}

/** The disk with `files` in its `folder`, all synced. SQLite's -shm files, which no start reads, are left out. */
export function openCrashDisk(folder: string, files: Record<string, Buffer>): CrashDisk {
  const kept = Object.entries(files).map(([name, bytes]): [string, Content] => {
    return [path.join(folder, name), { bytes: Buffer.from(bytes), size: bytes.length, unsynced: [] }];
  });
  /** Names as they certainly are on the disk, and as the process sees them. */
  const certain = new Map(kept);
  const seen = new Map(kept);
  let namings: Naming[] = [];

  function rename(name: string, content: Content | undefined, done: number): void {
    if (content) seen.set(name, content);
    else seen.delete(name);
    namings.push({ name, content, done });
  }

  function assign(names: Map<string, Content>, { name, content }: Naming): void {
    if (content) names.set(name, content);
    else names.delete(name);
  }

  function sync(file: string, begun: number): void {
    const content = seen.get(file);
    if (content) {
      for (const edit of content.unsynced) if (edit.done < begun) settle(content, edit);
      content.unsynced = content.unsynced.filter(({ done }) => done >= begun);
    } else if (file === folder) {
      for (const naming of namings) if (naming.done < begun) assign(certain, naming);
      namings = namings.filter(({ done }) => done >= begun);
    }
  }

  function apply(event: DiskEvent): void {
    if (event.kind === 'answer' || event.file.endsWith('-shm')) return;
    const { file, done } = event;
    const content = seen.get(file);
    if (event.kind === 'sync') sync(file, event.begun);
    else if (event.kind === 'remove') rename(file, undefined, done);
    else if (event.kind === 'write' || event.kind === 'truncate') content?.unsynced.push(event);
    else if (!content) rename(file, { bytes: Buffer.alloc(0), size: 0, unsynced: [] }, done);
  }

  function restore(into: string, survival: Survival, random: () => number): void {
    for (const name of readdirSync(into)) rmSync(path.join(into, name));
    const survives = () => survival !== 'none' && (survival === 'all' || random() < 0.5);
    const names = new Map(certain);
    const share = survival === 'some' ? random() : survival === 'all' ? 1 : 0;
    for (const naming of namings.slice(0, Math.round(share * namings.length))) assign(names, naming);
    for (const [name, content] of names) writeFile(path.join(into, path.basename(name)), content, survives);
  }

  return { apply, restore };
}
