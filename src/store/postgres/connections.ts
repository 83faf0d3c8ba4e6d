/** The connections of a pool: at most `size`, opened one at a time while a job waits for one. */
import { setTimeout as sleep } from 'node:timers/promises';
import { classOf, type ErrorCounts } from './errors.ts';
import type { PrimaryConnection } from './hosts.ts';

interface ConnectionsOptions {
  connect: (onClose: () => void) => Promise<PrimaryConnection>;
  size: number;
  /** Whether a job waits that could start. */
  isNeeded: () => boolean;
  /** Called when another connection is idle. */
  onOpen: () => void;
  /** Counts errors of connecting, and idle connections that were lost. */
  errors: ErrorCounts;
}

export interface Connections {
  /** An idle connection; undefined if there is none. */
  take: () => PrimaryConnection | undefined;
  /** Makes a connection idle that `take` returned, unless it was lost meanwhile. */
  giveBack: (connection: PrimaryConnection) => void;
  /** Opens connections until `size` are open or none is needed. Call it when one is needed. */
  openMore: () => Promise<void>;
  drop: (connection: PrimaryConnection) => void;
  /** Drops the connections to primaries that one with this timeline has replaced. */
  dropOlder: (timeline: number) => void;
  /** Drops all connections, and each one that is only just opening. */
  close: () => void;
  /** Connections that are open and not idle. */
  busy: () => number;
  /** Why the last connection could not be opened; undefined if it could. */
  lastError: () => unknown;
}

const reconnectEveryMs = 50;

/** A random time around `ms`, so that servers do not all try again at once. */
export const jitter = (ms: number) => ms * (0.5 + Math.random());

export function createConnections({ connect, size, isNeeded, onOpen, errors }: ConnectionsOptions): Connections {
  const idle: PrimaryConnection[] = [];
  const open = new Set<PrimaryConnection>();
  let opening = false;
  let closed = false;
  let lastError: unknown;

  function drop(connection: PrimaryConnection): void {
    if (!open.delete(connection)) return;
    const index = idle.indexOf(connection);
    if (index >= 0) idle.splice(index, 1);
    connection.destroy();
    void openMore();
  }

  /** The server, or the network, has ended the connection. */
  function lose(connection: PrimaryConnection): void {
    // If it is not idle, its job fails, which is counted there.
    if (idle.includes(connection)) errors.connection += 1;
    drop(connection);
  }

  /** One at a time, so as not to flood a server that has just come back. */
  async function openMore(): Promise<void> {
    if (opening) return;
    opening = true;
    while (open.size < size && isNeeded()) {
      try {
        let connection: PrimaryConnection | undefined;
        connection = await connect(() => connection && lose(connection));
        lastError = undefined;
        if (closed) {
          connection.destroy();
          break;
        }
        open.add(connection);
        idle.push(connection);
        onOpen();
      } catch (error) {
        lastError = error;
        errors[classOf(error)] += 1;
        await sleep(jitter(reconnectEveryMs));
      }
    }
    opening = false;
  }

  return {
    take: () => idle.pop(),
    giveBack(connection) {
      if (open.has(connection)) idle.push(connection);
    },
    openMore,
    drop,
    dropOlder(timeline) {
      for (const connection of [...open]) if (connection.timeline < timeline) drop(connection);
    },
    close() {
      closed = true;
      for (const connection of [...open]) drop(connection);
    },
    busy: () => open.size - idle.length,
    lastError: () => lastError,
  };
}
