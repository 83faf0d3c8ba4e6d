/** Parses a PostgreSQL URL in libpq's form: postgres://user:password@host:port/database?sslmode=… */
import fs from 'node:fs';
import { messageOf } from '../../core/errors.ts';
import { OpenError } from '../store.ts';

interface Host {
  /** A name, an address, or the folder of a Unix socket, in the URL as %2Fvar%2Frun%2Fpostgresql. */
  host: string;
  port: number;
}

interface TlsOptions {
  rejectUnauthorized?: false;
  ca?: string;
  cert?: string;
  key?: string;
}

export interface Target extends Host {
  database: string;
  user: string | undefined;
  password: string | undefined;
  ssl: TlsOptions | false;
  /** Whether to connect without TLS if the server has none. */
  plainAllowed: boolean;
  /** Whether to use named prepared statements; false for a pooler that gives each transaction another connection. */
  prepare: boolean;
  /** Maximum number of connections. */
  connections: number;
  /** The URL without user, password and parameters, for messages. */
  label: string;
}

const format = /^postgres(?:ql)?:\/\/(?:([^:@/]*)(?::([^@/]*))?@)?([^/?@]+)\/([^/?@]+)(?:\?(.*))?$/;
const hostFormat = /^(\[[0-9A-Fa-f:.]+\]|[^:[\]]+)(?::(.*))?$/;

const parameters = ['sslmode', 'sslrootcert', 'sslcert', 'sslkey', 'prepare', 'connections'];
const severalHosts =
  'names several hosts: name one endpoint that leads to the primary, such as HAProxy in front of the cluster (docs/scaling.md).';
const malformed =
  'the address must be postgres://user:password@host:port/database; in user and password, write / as %2F, @ as %40 and % as %25.';
const defaultPort = 5432;
const maxPort = 65_535;
const defaultConnections = 10;

/** Decodes percent-encoding. The error does not contain the text, which may be a password. */
function decode(part: string, text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw new OpenError(`the ${part} is not percent-encoded: write % as %25.`);
  }
}

function readHost(text: string): Host {
  if (text.includes(',')) throw new OpenError(severalHosts);
  const [, host, port = String(defaultPort)] = hostFormat.exec(text) ?? [];
  // What follows the first colon stays out of the messages: in a URL without @, it may be a password.
  if (host === undefined)
    throw new OpenError('the host must be a name or an address, and an IPv6 address must be in brackets.');
  if (!/^\d+$/.test(port) || Number(port) < 1 || Number(port) > maxPort)
    throw new OpenError(`the port of ${JSON.stringify(host)} must be a whole number from 1 to ${maxPort}.`);
  return { host: decode('host', host.replace(/^\[(.*)\]$/, '$1')), port: Number(port) };
}

function readText(given: URLSearchParams, parameter: string): string | undefined {
  const file = given.get(parameter);
  try {
    return file === null ? undefined : fs.readFileSync(file, 'utf8');
  } catch (error) {
    throw new OpenError(`${parameter} cannot be read: ${messageOf(error)}.`, { cause: error });
  }
}

/** sslmode as in libpq (https://www.postgresql.org/docs/18/libpq-ssl.html), except that verify-ca also checks the host name. */
function readTls(given: URLSearchParams): Pick<Target, 'ssl' | 'plainAllowed'> {
  const mode = given.get('sslmode') ?? 'disable';
  const plainAllowed = mode === 'allow' || mode === 'prefer';
  if (mode === 'disable') return { ssl: false, plainAllowed: true };
  if (!plainAllowed && !['require', 'verify-ca', 'verify-full'].includes(mode)) {
    throw new OpenError('sslmode must be one of disable, allow, prefer, require, verify-ca, verify-full.');
  }
  const [ca, cert, key] = ['sslrootcert', 'sslcert', 'sslkey'].map((parameter) => readText(given, parameter));
  const trust = mode.startsWith('verify') ? ca && { ca } : { rejectUnauthorized: false as const };
  return { ssl: { ...trust, ...(cert && { cert }), ...(key && { key }) }, plainAllowed };
}

/** Parses DATABASE_URL. Throws OpenError, whose message never contains the password. */
export function readTarget(databaseUrl: string): Target {
  const [, user, password, host = '', database = '', query = ''] = format.exec(databaseUrl) ?? [];
  if (database === '') throw new OpenError(malformed);
  const given = new URLSearchParams(query);
  for (const name of given.keys()) {
    if (parameters.includes(name)) continue;
    // The password may contain the / and the ? that seemed to end the host and the database.
    throw new OpenError(query.includes('@') ? malformed : `${name} is not one of ${parameters.join(', ')}.`);
  }
  const connections = Number(given.get('connections') ?? defaultConnections);
  if (!Number.isInteger(connections) || connections < 1 || connections > 1000) {
    throw new OpenError('connections must be a whole number from 1 to 1000.');
  }
  return {
    ...readHost(host),
    database: decode('database', database),
    user: user && decode('user', user),
    password: password && decode('password', password),
    ...readTls(given),
    prepare: given.get('prepare') !== 'false',
    connections,
    label: `postgres://${host}/${database}`,
  };
}
