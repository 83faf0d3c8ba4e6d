/** One connection to the server that takes writes, out of several hosts of which one does. */
import { once } from 'node:events';
import net from 'node:net';
import postgres from 'postgres';
import type { Host, Target } from './postgres-url.ts';

export type Sql = postgres.Sql;

export interface Connection {
  sql: Sql;
  /** Ends it at once, with whatever runs on it. */
  destroy: () => void;
}

/** From the first packet to the first answer; a host that stands still must leave time for the next. */
const connectTimeoutMs = 1000;

/** Connects to `host`. `onClose` is called once, when the connection, having been open, has ended for whatever reason. */
async function connectTo(host: Host, target: Target, onClose: () => void): Promise<Connection> {
  const socket = new net.Socket();
  let used = false;
  const options = {
    hostname: host.host,
    port: host.port,
    database: target.database,
    ...(target.user && { username: target.user }),
    ...(target.password && { password: target.password }),
    ssl: target.ssl,
    prepare: target.prepare,
    // 'read-write' would take a standby for the primary.
    target_session_attrs: 'primary' as const,
    // One query at a time: whoever holds the connection knows that nobody else's work is lost with it.
    max: 1,
    max_lifetime: null,
    fetch_types: false,
    connection: { application_name: 'animal-store' },
    onnotice: () => undefined,
    onclose: onClose,
    // The driver closes a socket politely, and waits for the other side to do the same: one that stands still never does.
    async socket() {
      // It would also connect anew by itself, when a statement may have been sent already.
      if (used) throw new Error('the connection was closed');
      used = true;
      socket.connect(host.port, host.host);
      await once(socket, 'connect');
      return Object.assign(socket.setNoDelay(), host);
    },
  };
  const sql = postgres(options as postgres.Options<Record<string, postgres.PostgresType>>);
  const destroy = () => {
    socket.destroy();
    sql.end({ timeout: 0 }).catch(() => undefined);
  };
  const timer = setTimeout(() => {
    socket.destroy(new Error(`${host.host}:${host.port} does not answer`));
  }, connectTimeoutMs);
  try {
    await sql`SELECT 1`;
    return { sql, destroy };
  } catch (error) {
    destroy();
    throw error;
  } finally {
    clearTimeout(timer);
  }
}

/** Connects to the host that takes writes, the last one that did first. */
export function createConnector(target: Target): (onClose: () => void) => Promise<Connection> {
  let favourite = 0;
  return async (onClose) => {
    const { hosts } = target;
    const failures: unknown[] = [];
    for (let tried = 0; tried < hosts.length; tried++) {
      const index = (favourite + tried) % hosts.length;
      try {
        const connection = await connectTo(hosts[index] as Host, target, onClose);
        favourite = index;
        return connection;
      } catch (error) {
        failures.push(error);
      }
    }
    throw failures[0];
  };
}
