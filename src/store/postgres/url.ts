/** Parses a PostgreSQL URL in libpq's form: postgres://user:password@host:port/database?sslmode=… */
import type { ConnectionOptions } from 'node:tls';
import { messageOf } from '../../core/errors.ts';
import { readText } from '../files.ts';
import { OpenError } from '../store.ts';

export interface Target {
  /** A name, an address, or the folder of a Unix socket, in the URL as %2Fvar%2Frun%2Fpostgresql. */
  host: string;
  port: number;
  database: string;
  user: string | undefined;
  password: string | undefined;
  ssl: ConnectionOptions | false;
  /** Whether the server must prove that nobody is in between (SCRAM-SHA-256-PLUS), is asked to, or is not asked. */
  channelBinding: (typeof bindings)[number];
  /** Whether to use named prepared statements; false for a pooler that gives each transaction another connection. */
  prepare: boolean;
  /** Maximum number of connections. */
  connections: number;
  /** The URL without user, password and parameters, for messages. */
  label: string;
}

const format = /^postgres(?:ql)?:\/\/(?:([^:@/]*)(?::([^@/]*))?@)?([^/?@]+)\/([^/?@]+)(?:\?(.*))?$/;
const hostFormat = /^(?:\[([0-9A-Fa-f:.]+)\]|([^:[\]]+))(?::([1-9]\d{0,4}))?$/;

const files = { sslrootcert: 'ca', sslcert: 'cert', sslkey: 'key' } as const;
const bindings = ['disable', 'prefer', 'require'] as const;
const parameters = ['sslmode', ...Object.keys(files), 'channel_binding', 'prepare', 'connections'];
/** As in libpq (https://www.postgresql.org/docs/18/libpq-ssl.html), except that verify-ca also checks the host name. */
const tlsModes = ['disable', 'require', 'verify-ca', 'verify-full'];
const severalHosts =
  'names several hosts: name one endpoint that leads to the primary, such as HAProxy in front of the cluster (docs/scaling.md).';
const malformed =
  'the address must be postgres://user:password@host:port/database, with an IPv6 address in brackets; in user and password, write / as %2F, @ as %40 and % as %25.';
const defaultConnections = 10;

/** Throws OpenError. An empty file, too: without `ca`, Node would trust its own authorities. */
function readTlsFile(parameter: string, file: string): string {
  try {
    const text = readText(file);
    if (text === '') throw new Error('it is empty');
    return text;
  } catch (cause) {
    throw new OpenError(`${parameter} cannot be read: ${messageOf(cause)}.`, { cause });
  }
}

function readTls(given: URLSearchParams): Target['ssl'] {
  const unused = Object.keys(files).find((file) => given.has(file) && !given.has('sslmode'));
  if (unused) throw new OpenError(`${unused} needs sslmode=verify-full.`);
  const mode = given.get('sslmode') ?? 'disable';
  if (!tlsModes.includes(mode)) throw new OpenError(`sslmode must be one of ${tlsModes.join(', ')}.`);
  if (mode === 'disable') return false;
  const tls: ConnectionOptions = { rejectUnauthorized: mode !== 'require' || given.has('sslrootcert') };
  // With a CA, libpq also verifies the certificate, but not the host name.
  if (mode === 'require') tls.checkServerIdentity = () => undefined;
  for (const [parameter, name] of Object.entries(files)) {
    const file = given.get(parameter);
    if (file !== null) tls[name] = readTlsFile(parameter, file);
  }
  return tls;
}

/** Parses DATABASE_URL. Throws OpenError, whose message never contains the password. */
export function readTarget(databaseUrl: string): Target {
  const [, user, password, address = '', database = '', query = ''] = format.exec(databaseUrl) ?? [];
  if (address.includes(',')) throw new OpenError(severalHosts);
  const [, ipv6, host = ipv6, port = '5432'] = hostFormat.exec(address) ?? [];
  // What follows the first colon stays out of the messages: in a URL without @, it may be a password.
  if (host === undefined || Number(port) > 65_535) throw new OpenError(malformed);
  const given = new URLSearchParams(query);
  const unknown = [...given.keys()].find((name) => !parameters.includes(name));
  // The password may contain the / and the ? that seemed to end the host and the database.
  if (unknown !== undefined)
    throw new OpenError(query.includes('@') ? malformed : `${unknown} is not one of ${parameters.join(', ')}.`);
  const connections = Number(given.get('connections') ?? defaultConnections);
  if (!Number.isInteger(connections) || connections < 1 || connections > 1000) {
    throw new OpenError('connections must be a whole number from 1 to 1000.');
  }
  const decode = (text: string) => {
    try {
      return decodeURIComponent(text);
    } catch {
      throw new OpenError(malformed);
    }
  };
  const prepare = given.get('prepare') ?? 'true';
  const channelBinding = bindings.find((each) => each === (given.get('channel_binding') ?? 'disable'));
  if (!channelBinding) throw new OpenError(`channel_binding must be one of ${bindings.join(', ')}.`);
  const ssl = readTls(given);
  if (channelBinding === 'require' && !ssl)
    throw new OpenError('channel_binding=require needs TLS: add sslmode=require, or better verify-full.');
  if (!/^(true|false)$/.test(prepare)) throw new OpenError('prepare must be true or false.');
  return {
    host: decode(host),
    port: Number(port),
    database: decode(database),
    user: user && decode(user),
    password: password && decode(password),
    ssl,
    channelBinding,
    prepare: prepare === 'true',
    connections,
    label: `postgres://${address}/${database}`,
  };
}
