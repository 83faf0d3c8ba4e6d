/** What the URL of a PostgreSQL database says: postgres://user:password@host:port,host:port/database?sslmode=…, as libpq writes it. */
import fs from 'node:fs';
import { OpenError } from '../store.ts';

export interface Host {
  host: string;
  port: number;
}

export interface Target {
  /** Asked in turn for the one that takes writes. */
  hosts: Host[];
  database: string;
  user: string | undefined;
  password: string | undefined;
  ssl: 'prefer' | 'require' | { ca?: string } | false;
  /** Whether statements are prepared by name: false where a pooler between hands each transaction to another connection. */
  prepare: boolean;
  /** Connections at most. */
  connections: number;
  /** For people: the address without its password. */
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

/** sslmode as libpq has it (https://www.postgresql.org/docs/18/libpq-ssl.html), but that verify-ca looks at the host's name as well. */
function readTls(mode: string | null, rootCertificate: string | null): Target['ssl'] {
  if (mode === null || mode === 'disable') return false;
  if (mode === 'allow' || mode === 'prefer') return 'prefer';
  if (mode === 'require') return 'require';
  if (mode !== 'verify-ca' && mode !== 'verify-full') {
    throw new OpenError('sslmode must be one of disable, allow, prefer, require, verify-ca, verify-full.');
  }
  return rootCertificate === null ? {} : { ca: readCertificate(rootCertificate) };
}

/** Throws OpenError, which never repeats the password. */
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
