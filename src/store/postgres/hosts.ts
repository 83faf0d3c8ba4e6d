/**
 * Finds the primary among the hosts of a URL, and never goes back to an older one: each promotion begins a higher timeline. A single host is the
 * primary whatever its timeline is: its operator may have restored it.
 */
import { type Connection, createDialer, type Dial, type Settings } from './connection.ts';
import type { Host, Target } from './url.ts';

/** A connection to a primary. */
export interface PrimaryConnection extends Connection {
  timeline: number;
}

type Connect = (onClose: () => void, settings?: Settings) => Promise<PrimaryConnection>;

export interface Hosts {
  /** Connects to the primary. Rejects with the error of the first host if none is the primary. */
  connect: Connect;
  /** Connects to a host, whatever it is. */
  dial: Dial;
  /** The primary that was found last; undefined before the first. */
  primary: () => Primary | undefined;
  /** Reports a primary that was found otherwise. Returns false, and changes nothing, if its timeline is older than the known one. */
  found: (host: Host, timeline: number) => boolean;
  /** `listener` is called when a primary with a higher timeline is found, except for the first. */
  onMove: (listener: (primary: Primary) => void) => void;
}

export interface Primary {
  host: Host;
  timeline: number;
}

/**
 * Of migrations and commands, whose statements may take hours. A stopped process would otherwise keep its locks, and servers wait behind them.
 */
const unpooledSettings: Settings = { idle_in_transaction_session_timeout: 60_000 };

export function createHosts(target: Target): Hosts {
  const { hosts } = target;
  const dial = createDialer(target);
  const listeners: ((primary: Primary) => void)[] = [];
  let primary: Primary | undefined;

  function found(host: Host, timeline: number): boolean {
    if (hosts.length > 1 && primary && timeline < primary.timeline) return false;
    const moved = primary !== undefined && timeline > primary.timeline;
    primary = { host, timeline };
    if (moved) for (const listener of listeners) listener(primary);
    return true;
  }

  /** Rejects unless `host` is a primary that is not older than the known one. The caller uses the connection, or destroys it. */
  async function connectTo(host: Host, settings: Settings, onClose: () => void): Promise<PrimaryConnection> {
    const connection = await dial(host, settings, onClose);
    const { timeline } = connection;
    const least = hosts.length > 1 ? (primary?.timeline ?? 0) : 0;
    if (timeline !== undefined && timeline >= least) return { ...connection, timeline };
    connection.destroy();
    throw new Error(
      timeline === undefined
        ? 'it is a standby'
        : `its timeline is ${timeline}, and another host's is ${primary?.timeline}`,
    );
  }

  /** Asks all hosts at once: the first to answer may be a primary that another has replaced. */
  async function connectToHighest(settings: Settings, onClose: () => void): Promise<PrimaryConnection> {
    let chosen: PrimaryConnection | undefined;
    const asked = await Promise.allSettled(
      hosts.map(async (host) => {
        let connection: PrimaryConnection | undefined;
        connection = await connectTo(host, settings, () => {
          if (connection && connection === chosen) onClose();
        });
        return { host, connection };
      }),
    );
    const primaries = asked.flatMap((answer) => (answer.status === 'fulfilled' ? [answer.value] : []));
    const [best, ...others] = primaries.sort((a, b) => b.connection.timeline - a.connection.timeline);
    for (const { connection } of others) connection.destroy();
    if (!best) throw (asked[0] as PromiseRejectedResult).reason;
    chosen = best.connection;
    if (found(best.host, chosen.timeline)) return chosen;
    chosen.destroy();
    throw new Error('another host has become the primary');
  }

  async function connect(onClose: () => void, settings = unpooledSettings): Promise<PrimaryConnection> {
    const last = primary?.host ?? (hosts.length === 1 ? hosts[0] : undefined);
    if (!last) return connectToHighest(settings, onClose);
    try {
      const connection = await connectTo(last, settings, onClose);
      if (found(last, connection.timeline)) return connection;
      connection.destroy();
    } catch (error) {
      if (hosts.length === 1) throw error;
    }
    return connectToHighest(settings, onClose);
  }

  return {
    connect,
    dial,
    primary: () => primary,
    found,
    onMove: (listener) => void listeners.push(listener),
  };
}
