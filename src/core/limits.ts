/** Every limit on what a client can take: whom it counts against, where it holds, and its default. docs/limits.md is generated from it. */

const kibibyte = 1024;
const mebibyte = 1024 * kibibyte;
const secondMs = 1000;
const minuteMs = 60 * secondMs;
const hourMs = 60 * minuteMs;
const dayMs = 24 * hourMs;

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
export const clockSkewMs = minuteMs;

export const limitTable = {
  connections: {
    what: 'open connections that have carried a valid API key, and as many that have not',
    value: 5000,
    holder: 'account or network',
    beyond: '503. A network below its equal share displaces the oldest connection without a valid key',
    setting: 'MAX_CONNECTIONS',
  },
  requestsInFlight: {
    what: 'requests that the store processes; without a valid key, a quarter of that number',
    value: 1000,
    holder: 'account or network',
    beyond: '503',
    setting: 'MAX_IN_FLIGHT',
  },
  bodiesInFlight: {
    what: 'request bodies that arrive; without a valid key, a quarter of that number',
    value: 1000,
    holder: 'account or network',
    beyond: '503, and the connection closes',
    setting: 'MAX_IN_FLIGHT',
  },
  pipelined: {
    what: 'pipelined requests that wait; without a valid key, a quarter of that number',
    value: 8192,
    holder: 'account or network',
    beyond: 'the connection is reset',
  },
  unreadBytes: {
    what: 'response bodies of 64 KiB or more that clients have not read; those of an account or network, a quarter of that',
    value: 32 * mebibyte,
    unit: 'bytes',
    holder: 'everybody',
    beyond: '503, and the connection closes',
  },
  waitingWrites: {
    what: 'writes that wait for their commit',
    value: 10_000,
    holder: 'everybody',
    beyond: '503',
  },
  // With the default of MAX_IN_FLIGHT, 1,000 messages of 64 KiB, one account cannot take all.
  waitingMessages: {
    what: 'text of messages of the quickstart that wait for their commit',
    value: 64 * mebibyte,
    unit: 'characters',
    holder: 'everybody',
    beyond: '503',
  },
  waitingReads: {
    what: 'reads of a kind that wait for PostgreSQL, and as many jobs that wait for a connection; those without a valid key apart',
    value: 10_000,
    holder: 'everybody',
    beyond: '503',
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
  bodyGrace: {
    what: 'time in which a body must arrive, and a second more for each 8 KiB of it',
    value: 3 * secondMs,
    unit: 'ms',
    holder: 'request',
    beyond: '408, and the connection closes',
  },
  bodyRate: {
    what: 'bytes of a body for which it gets a second more',
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
  eventLoopDelay: {
    what: 'mean delay of the event loop, measured over a second',
    value: secondMs,
    unit: 'ms',
    holder: 'everybody',
    beyond: '503',
  },
  turn: {
    what: 'time for which one turn of the event loop serves requests; without a valid key, a quarter of that',
    value: 25,
    unit: 'ms',
    holder: 'account',
    beyond: 'they wait for the next turn. An account below its equal share is served',
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
  lookUps: {
    what: 'look-ups of sessions, and of keys that were not valid lately',
    value: 250,
    holder: 'network',
    beyond: '503',
  },
  rejectedKeys: {
    what: 'rejected API keys in a minute',
    value: 600,
    holder: 'network',
    beyond: '429; one look-up of a key at a time, unless the key was valid lately',
    setting: 'REFUSAL_LIMIT',
  },
  knownKeys: {
    what: 'API keys that are remembered as valid',
    value: 10_000,
    holder: 'everybody',
    beyond: 'the oldest are looked up again',
  },
  rateWindows: {
    what: 'accounts and networks whose requests, or rejected keys, are counted in a minute',
    value: 10_000,
    holder: 'everybody',
    beyond: 'those that were counted first are forgotten',
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
  endedKeys: {
    what: 'API keys that were revoked or have expired',
    value: 100,
    holder: 'account',
    shared: true,
    beyond: 'the oldest are deleted',
  },
  usageAge: {
    what: 'time for which the requests of an API key are kept, one row a day',
    value: 90 * dayMs,
    unit: 'ms',
    holder: 'account',
    shared: true,
    beyond: 'they are deleted',
  },
  passwordCharacters: {
    what: 'length of a password',
    value: 256,
    unit: 'characters',
    holder: 'request',
    beyond: '400',
  },
  attemptWindow: {
    what: 'time for which a failed attempt to sign in counts',
    value: 15 * minuteMs,
    unit: 'ms',
    holder: 'account or network',
    beyond: 'it no longer counts',
  },
  rememberedAttempts: {
    what: 'accounts, networks, and links, of each kind, whose attempts a process remembers',
    value: 50_000,
    holder: 'everybody',
    beyond: 'the oldest are forgotten',
  },
  invitation: {
    what: 'time of an invitation that an operator makes',
    value: dayMs,
    unit: 'ms',
    holder: 'account',
    shared: true,
    beyond: 'the link is deleted',
  },
  reset: {
    what: 'time of a link to reset a password that an operator makes',
    value: hourMs,
    unit: 'ms',
    holder: 'account',
    shared: true,
    beyond: 'the link is deleted',
  },
  failedAttempts: {
    what: 'failed attempts to sign in within 15 minutes, by the name of the account',
    value: 10,
    holder: 'account',
    beyond: '429',
  },
  failedAttemptsOfNetwork: {
    what: 'failed attempts to sign in within 15 minutes, from a network',
    value: 10,
    holder: 'network',
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
  passwordsRunning: {
    what: 'passwords that are hashed at the same time; networks take turns',
    value: 2,
    holder: 'everybody',
    beyond: 'the next one waits',
  },
  passwordsWaiting: {
    what: 'passwords that wait to be hashed, for a few seconds at most',
    value: 60,
    holder: 'network',
    beyond: '503',
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
  sessionIdle: {
    what: 'time of a session, from its last use',
    value: hourMs,
    unit: 'ms',
    holder: 'account',
    shared: true,
    beyond: 'it ends',
  },
  newAccount: {
    what: 'time for which an account that anybody could create counts as its network',
    value: 30 * dayMs,
    unit: 'ms',
    holder: 'account',
    shared: true,
    beyond: 'it has a share of its own',
  },
  messages: {
    what: 'messages of the quickstart in 24 hours',
    value: 1000,
    holder: 'account',
    shared: true,
    beyond: '429',
  },
  messageAge: {
    what: 'time that a message of the quickstart is kept',
    value: dayMs,
    unit: 'ms',
    holder: 'account',
    shared: true,
    beyond: 'it is deleted',
  },
} as const satisfies Record<string, Limit>;

export type LimitName = keyof typeof limitTable;

/** The default of each limit. */
export const limits = Object.fromEntries(
  Object.entries(limitTable).map(([name, { value }]) => [name, value]),
) as Readonly<Record<LimitName, number>>;

/** A number as messages and documents write it: 65,536. */
export const inDigits = (count: number) => count.toLocaleString('en');
