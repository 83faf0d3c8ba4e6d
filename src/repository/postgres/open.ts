/** Prepares a PostgreSQL database before it is used: connects, checks its settings and migrates its schema. */
import { setTimeout as sleep } from 'node:timers/promises';
import postgres from 'postgres';
import { OpenError, type OpenOptions } from '../store.ts';
import type { Connection, Sql } from './connection.ts';
import { prepareSchema } from './migrations.ts';
import type { Target } from './url.ts';

/** How long to wait for a database that starts together with the server. If it stays down, the process exits and its supervisor restarts it. */
const openTimeoutMs = 5000;
const retryDelayMs = 200;

/**
 * A wrong password, user or database (classes 28 and 3D, and 42501), or a certificate that is not trusted
 * (https://nodejs.org/docs/latest-v24.x/api/tls.html#x509-certificate-error-codes): a retry would fail in the same way.
 */
const permanent = /^(28|3D|42501|NO_TLS|UNABLE_TO)|CERT/;

async function connectFirst(connect: () => Promise<Connection>): Promise<Connection> {
  const deadline = performance.now() + openTimeoutMs;
  for (;;) {
    try {
      return await connect();
    } catch (error) {
      if (performance.now() >= deadline || permanent.test(String((error as { code?: unknown }).code))) throw error;
      await sleep(retryDelayMs);
    }
  }
}

/** Requires UTF-8, so that names are returned unchanged, and commits that wait for the disk. Throws OpenError. */
async function checkSettings(sql: Sql): Promise<void> {
  const [settings] = await sql`
    SELECT current_setting('server_encoding') AS encoding, current_setting('synchronous_commit') AS commit`;
  if (settings?.encoding !== 'UTF8') throw new OpenError(`has the encoding ${settings?.encoding}; it must be UTF8.`);
  if (settings.commit === 'off')
    throw new OpenError('acknowledges commits before they are on disk: synchronous_commit must not be off.');
}

/** Times out if the server hangs. The migration itself has no timeout, because it may take hours. */
async function examine({ sql, destroy }: Connection, options: OpenOptions): Promise<void> {
  const timer = setTimeout(destroy, openTimeoutMs);
  try {
    await checkSettings(sql);
  } finally {
    clearTimeout(timer);
  }
  await prepareSchema(sql, options);
}

function sentenceOf(label: string, error: unknown): string {
  if (error instanceof OpenError) return `${label} ${error.message}`;
  const { code, message } = error as { code?: string; message: string };
  // The driver's code for a server that is not a primary.
  if (code === 'CONNECTION_DESTROYED') return `${label} cannot be opened: it is a standby, or does not answer.`;
  return `${label} cannot be opened: ${message || code}.`;
}

/** Connects, checks the settings and migrates the schema. Rejects with OpenError. */
export async function prepareDatabase(
  { label }: Target,
  connect: () => Promise<Connection>,
  options: OpenOptions,
): Promise<void> {
  let connection: Connection | undefined;
  try {
    connection = await connectFirst(connect);
    await examine(connection, options);
  } catch (error) {
    throw new OpenError(sentenceOf(label, error), {
      cause: error instanceof postgres.PostgresError ? error : undefined,
    });
  } finally {
    connection?.destroy();
  }
}
