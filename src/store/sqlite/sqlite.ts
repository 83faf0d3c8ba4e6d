/** The embedded store: one SQLite file in WAL mode. This thread reads it and a worker thread writes it, each on its own connection. */
import { statfsSync, statSync } from 'node:fs';
import { petJson } from '../../core/pets.ts';
import { selectKey } from '../accounts.ts';
import type { Engine } from '../engine.ts';
import type { OpenOptions } from '../store.ts';
import { watchFile } from './connection.ts';
import { startReader } from './reader.ts';
import { prepareStore } from './store-file.ts';
import { startWriter } from './writer.ts';

/** Undefined if the file system does not report its size. */
function measureDisk(file: string): { size: number; available: number } | undefined {
  try {
    const { bsize, blocks, bavail } = statfsSync(file);
    return { size: bsize * blocks, available: bsize * bavail };
  } catch {
    return undefined;
  }
}

/** Opens the file, for open.ts; creates or migrates it if needed. Throws OpenError. `given`: its path in the settings, which may be a link. */
export function openSqlite(file: string, options: OpenOptions, given: string) {
  const migrated = prepareStore(file, options);
  const names = statSync(file).nlink;
  if (names > 1)
    options.logger?.warn(
      `${file} has ${names} names (hard links): use it by one alone, as SQLite keeps a log for each`,
    );
  const reader = startReader(file);
  // Now SQLite has opened the log and its index.
  const refuseMoved = watchFile(file, given);
  const writer = startWriter(file, options, given);
  const { list, find, isCurrent } = reader;
  const engine: Engine = {
    write: writer.write,
    read: reader.run,
    findKeyRow: (hash) => reader.run(() => selectKey(hash)),
    pets: {
      list,
      find,
      isCurrent,
      add({ name, categoryId, status }, retry, keyId) {
        const category = String(categoryId);
        const row = { name, categoryId: category, status, retry, keyId, at: options.now().getTime() };
        return writer.addPet(row, (outcome) => {
          if (typeof outcome === 'number')
            return { outcome: 'added', id: BigInt(outcome), pet: petJson(outcome, name, category, status) };
          return outcome.outcome === 'replayed' ? { ...outcome, id: BigInt(outcome.id) } : outcome;
        });
      },
    },
  };

  return {
    engine,
    migrated,

    async check() {
      refuseMoved();
      await reader.check();
    },

    measure: () => ({
      waitingWrites: writer.waiting(),
      walBytes: statSync(`${file}-wal`, { throwIfNoEntry: false })?.size ?? 0,
      failedWrites: writer.failedWrites,
      disk: measureDisk(file),
    }),

    async close() {
      // The writer must close last: only a connection that can write checkpoints and removes the WAL.
      reader.close();
      await writer.close();
    },
  };
}
