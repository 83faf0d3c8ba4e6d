/** Every limit on what a client can take: whom it counts against, where it holds, and its default. docs/limits.md is generated from it. */

const kibibyte = 1024;
const mebibyte = 1024 * kibibyte;
const secondMs = 1000;
export const minuteMs = 60 * secondMs;
export const hourMs = 60 * minuteMs;
export const dayMs = 24 * hourMs;

interface Limit {
  /** What is limited, for docs/limits.md. */
  what: string;
  value: number;
  unit?: 'ms' | 'bytes' | 'characters';
  /** Whom the limit counts against. A network is an IPv4 address, or a /64 of IPv6. */
  holder: 'account' | 'network' | 'account or network' | 'connection' | 'request' | 'everybody';
  /** All processes on a store count together; otherwise each counts for itself. */
  shared?: true;
  /** What happens beyond it. */
  beyond: string;
  /** The setting that changes it. */
  setting?: string;
}

/** By how much the clocks of servers may differ, or a clock may be set back, without an effect. */
export const clockSkewMs = 60 * secondMs;

export const limitTable = {
  connections: {
    what: 'open connections',
    value: 5000,
    holder: 'account or network',
    beyond: 'the holder that has most loses its oldest idle connection; 503 if it has none that is idle',
    setting: 'MAX_CONNECTIONS',
  },
  work: {
    what: 'requests that the store processes; a message of the quickstart counts as four',
    value: 4000,
    holder: 'account or network',
    beyond: '503',
  },
  bodies: {
    what: 'request bodies that arrive',
    value: 2000,
    holder: 'account or network',
    beyond: '503, and the connection closes',
  },
  lookUps: {
    what: 'look-ups of sessions, and of keys that were not valid lately',
    value: 500,
    holder: 'network',
    beyond: '503',
  },
  pipelined: {
    what: 'pipelined requests that wait',
    value: 8192,
    holder: 'network',
    beyond: 'the connection is reset',
  },
  unreadBytes: {
    what: 'response bodies of 64 KiB or more that clients have not read',
    value: 32 * mebibyte,
    unit: 'bytes',
    holder: 'account or network',
    beyond: '503, and the connection closes',
  },
  statement: {
    what: 'time of a statement or transaction on PostgreSQL, with the wait for a connection',
    value: 2300,
    unit: 'ms',
    holder: 'request',
    beyond: '503; it is cancelled',
  },
  request: {
    what: 'time in which a request must arrive',
    value: 9 * secondMs,
    unit: 'ms',
    holder: 'request',
    beyond: '408, and the connection closes',
  },
  bodyRate: {
    what: 'bytes of a body that must arrive each second, after the first three seconds',
    value: 8 * kibibyte,
    unit: 'bytes',
    holder: 'request',
    beyond: '408, and the connection closes',
  },
  response: {
    what: 'time from the headers of a request to the start of its response',
    value: 30 * secondMs,
    unit: 'ms',
    holder: 'request',
    beyond: '503, and the connection closes',
  },
  stall: {
    what: 'time for which a client reads nothing of a response',
    value: 4 * secondMs,
    unit: 'ms',
    holder: 'connection',
    beyond: 'the connection is reset',
  },
  keepAlive: {
    what: 'time that a connection may be idle between two requests',
    value: 72 * secondMs,
    unit: 'ms',
    holder: 'connection',
    beyond: 'the connection closes',
  },
  held: {
    what: 'time for which requests wait for a turn of the event loop that serves them',
    value: 700,
    unit: 'ms',
    holder: 'request',
    beyond: '503',
  },
  // RFC 9112, section 3, asks for at least 8,000 octets.
  url: { what: 'length of a URL', value: 8192, unit: 'bytes', holder: 'request', beyond: '414' },
  headerBytes: {
    what: 'length of the request line and the headers',
    value: 16 * kibibyte,
    unit: 'bytes',
    holder: 'request',
    beyond: '431, and the connection closes',
  },
  bodyBytes: {
    what: 'length of a body',
    value: 64 * kibibyte,
    unit: 'bytes',
    holder: 'request',
    beyond: '413',
  },
  petName: {
    what: 'length of the name of an animal',
    value: 1000,
    unit: 'characters',
    holder: 'request',
    beyond: '400',
  },
  // The longest form has a name and two passwords of 256 characters, percent-encoded.
  formBytes: {
    what: 'length of a form of the account pages',
    value: 16 * kibibyte,
    unit: 'bytes',
    holder: 'request',
    beyond: '413',
  },
  rejectedKeys: {
    what: 'rejected API keys in a minute',
    value: 600,
    holder: 'network',
    beyond: '429',
  },
  activeKeys: {
    what: 'active API keys',
    value: 50,
    holder: 'account',
    shared: true,
    beyond: 'the form says so; on the command line, exit 1',
  },
  keysPerDay: {
    what: 'API keys that a person makes or rotates in 24 hours',
    value: 100,
    holder: 'account',
    shared: true,
    beyond: '429',
  },
  passwordCharacters: {
    what: 'length of a password',
    value: 256,
    unit: 'characters',
    holder: 'request',
    beyond: '400',
  },
  failedAttempts: {
    what: 'failed attempts to sign in within 15 minutes, by the name of the account, and from a network',
    value: 10,
    holder: 'account or network',
    beyond: '429',
  },
  signUps: {
    what: 'forms that create an account in 24 hours, or ask whether a name is taken',
    value: 50,
    holder: 'network',
    beyond: '429',
  },
  linkUses: {
    what: 'forms with the same one-time link in 24 hours',
    value: 50,
    holder: 'account',
    beyond: '429',
  },
  passwordsPerNetwork: {
    what: 'passwords of a network that are hashed or wait',
    value: 10,
    holder: 'network',
    beyond: '503',
  },
  sessions: { what: 'sessions', value: 50, holder: 'account', shared: true, beyond: 'the oldest end' },
  sessionLifetime: {
    what: 'time of a session, from its start',
    value: 12 * hourMs,
    unit: 'ms',
    holder: 'account',
    shared: true,
    beyond: 'it ends',
  },
  messages: {
    what: 'messages of the quickstart in 24 hours',
    value: 1000,
    holder: 'account',
    shared: true,
    beyond: '429',
  },
} as const satisfies Record<string, Limit>;

export type LimitName = keyof typeof limitTable;

/** The default of each limit. */
export const limits = Object.fromEntries(
  Object.entries(limitTable).map(([name, { value }]) => [name, value]),
) as Readonly<Record<LimitName, number>>;

/** A number as messages and documents write it: 65,536. */
export const inDigits = (count: number) => count.toLocaleString('en');
