/** What precedes the serving of a PostgreSQL database: a first connection, what the database must promise, and its schema. */
import { setTimeout as sleep } from 'node:timers/promises';
import postgres from 'postgres';
import { OpenError, type OpenOptions } from '../store.ts';
import type { Connection, Sql } from './connection.ts';
import { prepareSchema } from './migrations.ts';
import type { Target } from './url.ts';

/** A database that starts beside the server is waited for; where it is down, whoever started the server tries again. */
const patienceMs = 5000;
const askAgainMs = 200;

/**
 * A wrong password, user or database (classes 28 and 3D, and 42501), or a certificate that is not trusted
 * (https://nodejs.org/docs/latest-v24.x/api/tls.html#x509-certificate-error-codes): to ask again would change nothing.
 */
const lasting = /^(28|3D|42501|NO_TLS|UNABLE_TO)|CERT/;

async function connectFirst(connect: () => Promise<Connection>): Promise<Connection> {
  const deadline = performance.now() + patienceMs;
  for (;;) {
    try {
      return await connect();
    } catch (error) {
      if (performance.now() >= deadline || lasting.test(String((error as { code?: unknown }).code))) throw error;
      await sleep(askAgainMs);
    }
  }
}

/** Names must come back byte for byte, and what is acknowledged must be on disk. */
async function checkSettings(sql: Sql): Promise<void> {
  const [settings] = await sql`
    SELECT current_setting('server_encoding') AS encoding, current_setting('synchronous_commit') AS commit`;
  if (settings?.encoding !== 'UTF8') throw new OpenError(`has the encoding ${settings?.encoding}; it must be UTF8.`);
  if (settings.commit === 'off')
    throw new OpenError('confirms what is not on disk yet: synchronous_commit must not be off.');
}

/** A frozen server must not keep the operator waiting; the clock stops where the schema is brought up to date, which may take hours. */
async function examine({ sql, destroy }: Connection, options: OpenOptions): Promise<void> {
  const timer = setTimeout(destroy, patienceMs);
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
  // The driver's word for a server that is not what was asked for.
  if (code === 'CONNECTION_DESTROYED') return `${label} cannot be opened: it is a standby, or does not answer.`;
  return `${label} cannot be opened: ${message || code}.`;
}

/** Opens the database and makes its schema this release's. Throws OpenError. */
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
