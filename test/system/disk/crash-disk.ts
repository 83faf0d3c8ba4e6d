/** Simulates a disk that loses power: synced data always survives, unsynced data may survive whole, in part or not at all. */
import { closeSync, ftruncateSync, openSync, readdirSync, rmSync, writeSync } from 'node:fs';
import path from 'node:path';
import type { Change, DiskEvent } from './disk-trace.ts';

/** How much of the unsynced data survives: nothing, a random part, or everything. */
export type Survival = 'none' | 'some' | 'all';

/** Disks write a sector completely or not at all. */
const sectorBytes = 512;

type Edit = Extract<Change, { kind: 'write' | 'truncate' }> & { done: number };

interface Content {
  bytes: Buffer;
  size: number;
  unsynced: Edit[];
}

/** A file created, or removed (`content` is undefined). File systems keep the order of these changes: of the unsynced ones, the first few survive. */
interface NameChange {
  name: string;
  content: Content | undefined;
  done: number;
}

function applyEdit(content: Content, edit: Edit) {
  const end = edit.kind === 'write' ? edit.offset + edit.bytes.length : edit.size;
  if (end > content.bytes.length) content.bytes = Buffer.concat([content.bytes], 2 * end);
  if (edit.kind === 'write') edit.bytes.copy(content.bytes, edit.offset);
  else content.bytes.fill(0, end);
  content.size = edit.kind === 'write' ? Math.max(content.size, end) : end;
}

function writeFile(file: string, { bytes, size, unsynced }: Content, survives: () => boolean) {
  const descriptor = openSync(file, 'w');
  writeSync(descriptor, bytes, 0, size, 0);
  for (const edit of unsynced) {
    if (edit.kind === 'truncate') {
      if (survives()) ftruncateSync(descriptor, edit.size);
      continue;
    }
    for (let from = 0; from < edit.bytes.length; ) {
      // A write may begin inside a sector: its first part ends where that sector ends.
      const length = Math.min(edit.bytes.length - from, sectorBytes - ((edit.offset + from) % sectorBytes));
      if (survives()) writeSync(descriptor, edit.bytes, from, length, edit.offset + from);
      from += length;
    }
  }
  closeSync(descriptor);
}

function assign(names: Map<string, Content>, { name, content }: NameChange) {
  if (content) names.set(name, content);
  else names.delete(name);
}

/** A disk with a synced file in `folder`. It ignores SQLite's -shm files, because no start reads them. */
export function openCrashDisk(folder: string, name: string, bytes: Buffer) {
  /** `certain`: the files that are on the disk after any power loss; `seen`: the files as the process sees them. */
  const certain = new Map([[`${folder}/${name}`, { bytes, size: bytes.length, unsynced: [] } as Content]]);
  const seen = new Map(certain);
  let nameChanges: NameChange[] = [];

  function rename(change: NameChange) {
    assign(seen, change);
    nameChanges.push(change);
  }

  function sync(file: string, begun: number) {
    const content = seen.get(file);
    if (content) {
      for (const edit of content.unsynced) if (edit.done < begun) applyEdit(content, edit);
      content.unsynced = content.unsynced.filter(({ done }) => done >= begun);
    } else if (file === folder) {
      for (const nameChange of nameChanges) if (nameChange.done < begun) assign(certain, nameChange);
      nameChanges = nameChanges.filter(({ done }) => done >= begun);
    }
  }

  return {
    apply(event: DiskEvent) {
      if (event.kind === 'answer' || event.file.endsWith('-shm')) return;
      const { file: name, done } = event;
      const content = seen.get(name);
      if (event.kind === 'sync') sync(name, event.begun);
      else if (event.kind === 'remove') rename({ name, content: undefined, done });
      else if (event.kind === 'write' || event.kind === 'truncate') content?.unsynced.push(event);
      else if (!content) rename({ name, content: { bytes: Buffer.alloc(0), size: 0, unsynced: [] }, done });
    },
    /** Writes to `into` the files that a power loss at this point may leave. `random` returns numbers from 0 up to, but not including, 1. */
    restore(into: string, survival: Survival, random: () => number) {
      for (const name of readdirSync(into)) rmSync(`${into}/${name}`);
      const survives = () => survival !== 'none' && (survival === 'all' || random() < 0.5);
      const names = new Map(certain);
      const share = { none: 0, some: random(), all: 1 }[survival];
      for (const nameChange of nameChanges.slice(0, Math.round(share * nameChanges.length))) assign(names, nameChange);
      for (const [name, content] of names) writeFile(path.join(into, path.basename(name)), content, survives);
    },
  };
}
