/** Parses a PostgreSQL URL in libpq's form: postgres://user:password@host:port,host:port/database?sslmode=… */
import fs from 'node:fs';
import { OpenError } from '../store.ts';

export interface Host {
  host: string;
  port: number;
}

export interface Target {
  /** Tried in turn until one is the primary. */
  hosts: Host[];
  database: string;
  user: string | undefined;
  password: string | undefined;
  ssl: 'prefer' | 'require' | { ca?: string } | false;
  /** Whether to use named prepared statements; false for a pooler that gives each transaction another connection. */
  prepare: boolean;
  /** Maximum number of connections. */
  connections: number;
  /** The URL without user, password and parameters, for messages. */
  label: string;
}

const format = /^postgres(?:ql)?:\/\/(?:([^:@/]*)(?::([^@/]*))?@)?([^/?@]+)\/([^/?]+)(?:\?(.*))?$/;
const hostFormat = /^(\[[0-9A-Fa-f:.]+\]|[^:[\]]+)(?::(\d{1,5}))?$/;

const parameters = ['sslmode', 'sslrootcert', 'prepare', 'connections'];
const defaultPort = 5432;
const defaultConnections = 10;

function readHost(text: string): Host {
  const [, host, port = defaultPort] = hostFormat.exec(text) ?? [];
  if (host === undefined) throw new OpenError(`${JSON.stringify(text)} is not a host and a port.`);
  return { host: host.replace(/^\[(.*)\]$/, '$1'), port: Number(port) };
}

function readCertificate(file: string): string {
  try {
    return fs.readFileSync(file, 'utf8');
  } catch (error) {
    throw new OpenError(`sslrootcert cannot be read: ${(error as Error).message}.`, { cause: error });
  }
}

/** sslmode as in libpq (https://www.postgresql.org/docs/18/libpq-ssl.html), except that verify-ca also checks the host name. */
function readTls(mode: string | null, rootCertificate: string | null): Target['ssl'] {
  if (mode === null || mode === 'disable') return false;
  if (mode === 'allow' || mode === 'prefer') return 'prefer';
  if (mode === 'require') return 'require';
  if (mode !== 'verify-ca' && mode !== 'verify-full') {
    throw new OpenError('sslmode must be one of disable, allow, prefer, require, verify-ca, verify-full.');
  }
  return rootCertificate === null ? {} : { ca: readCertificate(rootCertificate) };
}

/** Parses DATABASE_URL. Throws OpenError, whose message never contains the password. */
export function readTarget(databaseUrl: string): Target {
  const [, user, password, hosts = '', database = '', query = ''] = format.exec(databaseUrl) ?? [];
  if (database === '') throw new OpenError('the address must be postgres://user:password@host:port/database.');
  const given = new URLSearchParams(query);
  for (const name of given.keys()) {
    if (!parameters.includes(name)) throw new OpenError(`${name} is not one of ${parameters.join(', ')}.`);
  }
  const connections = Number(given.get('connections') ?? defaultConnections);
  if (!Number.isInteger(connections) || connections < 1 || connections > 1000) {
    throw new OpenError('connections must be a whole number from 1 to 1000.');
  }
  return {
    hosts: hosts.split(',').map(readHost),
    database: decodeURIComponent(database),
    user: user && decodeURIComponent(user),
    password: password && decodeURIComponent(password),
    ssl: readTls(given.get('sslmode'), given.get('sslrootcert')),
    prepare: given.get('prepare') !== 'false',
    connections,
    label: `postgres://${hosts}/${database}`,
  };
}
