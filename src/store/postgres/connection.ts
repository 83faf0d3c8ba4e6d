/** How a connection is made to the endpoint of a URL, and what PostgreSQL ends there by itself. */
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { codeOf, messageOf } from '../../core/errors.ts';
import { limits } from '../../core/limits.ts';
import type { Target } from './url.ts';

/**
 * Settings of each session. Times in milliseconds: PostgreSQL ends what this process has given up. None of them ends a commit that waits for its standby
 * (finish_xact_command in src/backend/tcop/postgres.c). That a commit may not be on the standby is a warning (sql.ts). With row_security off, a statement fails if a policy would hide rows from it. With array_nulls off, PostgreSQL would read the driver's
 * NULL as text.
 */
export const sessionSettings = {
  array_nulls: 'on',
  client_min_messages: 'warning',
  idle_in_transaction_session_timeout: 5000,
  lock_timeout: 2000,
  row_security: 'off',
  statement_timeout: limits.statementMs + 200,
};

/** The driver's types, but integers as numbers; as bigint if a number cannot hold them. */
const types: pg.CustomTypesConfig = {
  getTypeParser: (type: number, format?: 'text' | 'binary') =>
    type === pg.types.builtins.INT8 ? readInt8 : pg.types.getTypeParser(type, format),
};

function readInt8(text: string): number | bigint {
  const value = Number(text);
  return Number.isSafeInteger(value) ? value : BigInt(text);
}

/** Less than the deadline: a job whose connection attempt meets silence gets another one. With TLS, an attempt takes six round trips. */
const connectTimeoutMs = 1000;

const queryTimeoutMs = 2000;

export class PoolClient extends pg.Client {
  constructor(config?: pg.ClientConfig & { requireChannelBinding?: boolean }) {
    super(config);
    if (config?.requireChannelBinding) requireBinding(this.connection);
  }
}

/**
 * Ends a connection before it sends a password, or is used, unless the server has proved with SCRAM-SHA-256-PLUS that it holds the certificate. The driver
 * does not ask for that. These listeners come before its own.
 */
function requireBinding(connection: pg.Connection): void {
  const reason = 'SASL: channel_binding=require, and the server does not prove itself with SCRAM-SHA-256-PLUS';
  function refuse(): void {
    connection.emit('error', new Error(reason));
    connection.stream.destroy();
  }
  let isOffered = false;
  let isBound = false;
  connection.on('authenticationSASL', ({ mechanisms }: { mechanisms: string[] }) => {
    isOffered = mechanisms.includes('SCRAM-SHA-256-PLUS');
    if (!isOffered) refuse();
  });
  // The driver verifies the signature in it, and fails if it is wrong.
  connection.on('authenticationSASLFinal', () => {
    isBound = isOffered;
  });
  connection.on('authenticationCleartextPassword', refuse).on('authenticationMD5Password', refuse);
  connection.on('authenticationOk', () => isBound || refuse());
}

/** Error of a pooler for a start-up option that it does not know. */
const refusedOption = '08P01';

/**
 * A wrong password, user or database (classes 28 and 3D, and 42501), no password (SASL), no TLS, or a certificate that is not trusted
 * (https://nodejs.org/docs/latest-v24.x/api/tls.html#x509-certificate-error-codes): a retry would fail in the same way.
 */
const permanent = /^(28|3D|42501|UNABLE_TO|SASL)|CERT|SSL/;

/** How long to wait for a database that starts together with the server. If it stays down, the process exits and its supervisor restarts it. */
export const openTimeoutMs = 5000;
const retryDelayMs = 200;

/** Connects once. Resolves to what each session must have for its commits: a weaker setting of the server, made while this process runs, would lose acknowledged writes. */
async function tryOut(config: pg.ClientConfig): Promise<string> {
  const client = new PoolClient(config);
  client.on('error', () => undefined);
  try {
    await client.connect();
    const query = { text: 'SHOW synchronous_commit', query_timeout: queryTimeoutMs };
    const { rows } = await client.query<{ synchronous_commit: string }>(query);
    // An operator may want the stronger one.
    return `-c synchronous_commit=${rows[0]?.synchronous_commit === 'remote_apply' ? 'remote_apply' : 'on'}`;
  } finally {
    client.connection.stream.destroy();
  }
}

/** How a pool connects, after a first connection: without settings of the session if a pooler refuses them. Waits for a server that starts. */
export async function configOf(target: Target): Promise<pg.ClientConfig> {
  const { host, port, database, user, password, ssl, channelBinding } = target;
  const config = {
    host,
    port,
    database,
    user,
    password,
    ssl,
    enableChannelBinding: channelBinding !== 'disable',
    requireChannelBinding: channelBinding === 'require',
    types,
    application_name: 'animal-store',
    connectionTimeoutMillis: connectTimeoutMs,
    keepAlive: true,
    keepAliveInitialDelayMillis: 60_000,
  };
  let options = Object.entries(sessionSettings).map(([name, value]) => `-c ${name}=${value}`);
  const until = performance.now() + openTimeoutMs;
  for (;;) {
    const given = { ...config, options: options.join(' ') };
    try {
      const commit = await tryOut(given);
      return options.length > 0 ? { ...given, options: `${given.options} ${commit}` } : given;
    } catch (error) {
      if (codeOf(error) === refusedOption && options.length > 0) {
        options = [];
        continue;
      }
      if (performance.now() >= until || permanent.test(codeOf(error) || messageOf(error)))
        throw messageOf(error) === 'timeout expired'
          ? new Error(`${host}:${port} does not answer within ${connectTimeoutMs} ms`)
          : error;
    }
    await sleep(retryDelayMs);
  }
}

/** Rejects if the connection leads to a standby, whose answers may be old. */
export async function refuseStandby(client: pg.ClientBase): Promise<void> {
  // An option that the driver's types lack.
  const query = { text: 'SELECT pg_is_in_recovery() AS standby', query_timeout: queryTimeoutMs };
  const { rows } = await client.query<{ standby: boolean }>(query);
  if (!rows[0]?.standby) return;
  // The pool would wait for an orderly end, without a time-out.
  (client as pg.Client).connection.stream.destroy();
  throw new Error('it is a standby');
}
