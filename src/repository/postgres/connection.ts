/** Connects to the PostgreSQL primary, which may be any one of several hosts. */
import postgres from 'postgres';
import { createSocket } from './socket.ts';
import type { Host, Target } from './url.ts';

export type Sql = postgres.Sql;

export interface Connection {
  sql: Sql;
  /** Closes the connection immediately and aborts any running statement. */
  destroy: () => void;
}

/** From the first packet to the first response. With several hosts, an unresponsive one must leave time for the next. */
const connectTimeoutMs = { one: 2000, several: 1000 };

const ignore = () => undefined;

/** Connects to `host`. `onClose` is called at least once when the connection ends, for any reason. */
async function connectTo(host: Host, target: Target, onClose: () => void): Promise<Connection> {
  const way = createSocket(host, target.ssl, onClose);
  const options = {
    hostname: host.host,
    port: host.port,
    database: target.database,
    ...(target.user && { username: target.user }),
    ...(target.password && { password: target.password }),
    ssl: false,
    prepare: target.prepare,
    // 'read-write' would accept a standby as the primary.
    target_session_attrs: 'primary' as const,
    // One query at a time: closing the connection cannot lose another caller's work.
    max: 1,
    max_lifetime: null,
    fetch_types: false,
    connection: { application_name: 'animal-store' },
    onnotice: ignore,
    onclose: onClose,
    socket: way.open,
  };
  const sql = postgres(options as postgres.Options<Record<string, postgres.PostgresType>>);
  const destroy = () => {
    way.destroy();
    sql.end({ timeout: 0 }).catch(ignore);
  };
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    const withinMs = connectTimeoutMs[target.hosts.length > 1 ? 'several' : 'one'];
    timer = setTimeout(() => reject(new Error(`${host.host}:${host.port} does not answer`)), withinMs);
  });
  try {
    await Promise.race([sql`SELECT 1`, late]);
    return { sql, destroy };
  } catch (error) {
    destroy();
    throw error;
  } finally {
    clearTimeout(timer);
  }
}

/** Returns a function that connects to the primary. It tries the last known primary first, and rejects with the first error if all hosts fail. */
export function createConnector(target: Target): (onClose: () => void) => Promise<Connection> {
  let lastPrimary = 0;
  return async (onClose) => {
    const { hosts } = target;
    const failures: unknown[] = [];
    for (let tried = 0; tried < hosts.length; tried++) {
      const index = (lastPrimary + tried) % hosts.length;
      try {
        const connection = await connectTo(hosts[index] as Host, target, onClose);
        lastPrimary = index;
        return connection;
      } catch (error) {
        failures.push(error);
      }
    }
    throw failures[0];
  };
}

export function textArray(texts: (string | null | undefined)[]): string {
  const elements = texts.map((text) => (typeof text === 'string' ? `"${text.replaceAll(/["\\]/g, '\\$&')}"` : 'NULL'));
  return `{${elements.join()}}`;
}

export function numberArray(numbers: (bigint | number | undefined)[]): string {
  return `{${numbers.map((number) => number ?? 'NULL').join()}}`;
}
