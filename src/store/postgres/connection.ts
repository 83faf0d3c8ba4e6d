/** Connects to the endpoint of a URL, and cancels what runs there too long. */
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { codeOf, messageOf } from '../../core/errors.ts';
import type { Target } from './url.ts';

/** From the first packet to the end of the start-up. */
const connectTimeoutMs = 2000;

const cancelTimeoutMs = 1000;

/** Settings of a session, as start-up options. */
export type Settings = Readonly<Record<string, number | string>>;

export interface Connected {
  client: pg.Client;
  /** How it was connected. */
  config: pg.ClientConfig;
}

async function connectOnce(target: Target, settings: Settings): Promise<Connected> {
  const { host, port, database, user, password, ssl } = target;
  const options = Object.entries(settings).map(([name, value]) => `-c ${name}=${value}`);
  const config: pg.ClientConfig = {
    ...{ host, port, database, user, password, ssl, options: options.join(' ') },
    ...{ application_name: 'animal-store', keepAlive: true, keepAliveInitialDelayMillis: 60_000 },
  };
  const client = new pg.Client({ ...config, connectionTimeoutMillis: connectTimeoutMs });
  // Statements reject with it, too.
  client.on('error', () => undefined);
  try {
    await client.connect();
    return { client, config };
  } catch (error) {
    client.connection.stream.destroy();
    if (messageOf(error) !== 'timeout expired') throw error;
    throw new Error(`${host}:${port} does not answer`, { cause: error });
  }
}

/** Error of a pooler for a start-up option that it does not know. */
const refusedOption = '08P01';

/** Connects, without the settings if a pooler refuses them. */
export async function connect(target: Target, settings: Settings): Promise<Connected> {
  try {
    return await connectOnce(target, settings);
  } catch (error) {
    if (codeOf(error) !== refusedOption) throw error;
    return connectOnce(target, {});
  }
}

/** Rejects if the connection leads to a standby, whose answers may be old. */
export async function refuseStandby(client: pg.ClientBase): Promise<void> {
  // An option that the driver's types lack.
  const query = { text: 'SELECT pg_is_in_recovery() AS standby', query_timeout: connectTimeoutMs };
  const { rows } = await client.query<{ standby: boolean }>(query);
  if (rows[0]?.standby) throw new Error('it is a standby');
}

/** What `pg` has, but its types lack. */
type Wire = pg.Connection & {
  connect: (port: number | string, host?: string) => void;
  requestSsl: () => void;
  cancel: (processId: number, secretKey: number) => void;
};
type Cancellable = Pick<pg.Client, 'host' | 'port'> & {
  ssl: pg.ConnectionConfig['ssl'];
  processID: number;
  secretKey: number;
};

/**
 * Asks the server to cancel what the client runs (https://www.postgresql.org/docs/18/protocol-flow.html#PROTOCOL-FLOW-CANCELING-REQUESTS).
 * Rejects if the server does not answer.
 */
export async function cancel(client: pg.ClientBase): Promise<void> {
  const { host, port, ssl, processID, secretKey } = client as unknown as Cancellable;
  const wire = new pg.Connection({ ssl }) as Wire;
  let sent = false;
  const send = () => {
    wire.cancel(processID, secretKey);
    sent = true;
  };
  const answered = new Promise<void>((resolve, reject) => {
    wire.on('error', () => undefined);
    wire.once('end', () => (sent ? resolve() : reject(new Error('no cancel request was taken'))));
  });
  wire.once('connect', ssl ? () => wire.requestSsl() : send).once('sslconnect', send);
  if (host.startsWith('/')) wire.connect(`${host}/.s.PGSQL.${port}`);
  else wire.connect(port, host);
  const late = sleep(cancelTimeoutMs, undefined, { ref: false }).then(() =>
    Promise.reject(new Error('no answer to a cancel request')),
  );
  await Promise.race([answered, late]).finally(() => wire.stream.destroy());
}
