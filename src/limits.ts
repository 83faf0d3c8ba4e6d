/** Every limit on what a client can take: whom it counts against, where it holds, and its default. docs/limits.md is written from it. */

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
  /** Where it is counted. A worker is a process if WORKERS is 1. */
  scope: 'worker' | 'store';
  /** What happens beyond it. */
  beyond: string;
  /** The setting that changes it. */
  setting?: string;
}

/** Where the clocks of servers may differ, and by how much a clock may be set back without an effect. */
export const clockSkewMs = minuteMs;

export const limitTable = {
  activeKeys: {
    what: 'active API keys',
    value: 50,
    holder: 'account',
    scope: 'store',
    beyond: 'the form says so; on the command line, exit 1',
  },
  keysPerDay: {
    what: 'API keys that a person makes or rotates in 24 hours',
    value: 100,
    holder: 'account',
    scope: 'store',
    beyond: '429',
  },
  endedKeys: {
    what: 'API keys that were revoked or have expired',
    value: 100,
    holder: 'account',
    scope: 'store',
    beyond: 'the oldest are deleted',
  },
  failedAttempts: {
    what: 'failed attempts to sign in within 15 minutes, by the name of the account',
    value: 10,
    holder: 'account',
    scope: 'store',
    beyond: '429',
  },
  failedAttemptsOfNetwork: {
    what: 'failed attempts to sign in within 15 minutes, from a network',
    value: 10,
    holder: 'network',
    scope: 'store',
    beyond: '429',
  },
  signUps: {
    what: 'forms that create an account in 24 hours, or ask whether a name is taken',
    value: 50,
    holder: 'network',
    scope: 'store',
    beyond: '429',
  },
  linkUses: {
    what: 'forms with the same one-time link in 24 hours',
    value: 50,
    holder: 'account',
    scope: 'store',
    beyond: '429',
  },
  passwordsRunning: {
    what: 'passwords that are hashed at the same time; networks take turns',
    value: 2,
    holder: 'everybody',
    scope: 'worker',
    beyond: 'the next one waits',
  },
  passwordsWaiting: {
    what: 'passwords that wait to be hashed, for a few seconds at most',
    value: 60,
    holder: 'network',
    scope: 'worker',
    beyond: '503',
  },
  passwordsPerNetwork: {
    what: 'passwords of a network that are hashed or wait',
    value: 10,
    holder: 'network',
    scope: 'worker',
    beyond: '503',
  },
  sessions: { what: 'sessions', value: 50, holder: 'account', scope: 'store', beyond: 'the oldest end' },
  sessionLifetime: {
    what: 'time of a session, from its start',
    value: 12 * hourMs,
    unit: 'ms',
    holder: 'account',
    scope: 'store',
    beyond: 'it ends',
  },
  sessionIdle: {
    what: 'time of a session, from its last use',
    value: hourMs,
    unit: 'ms',
    holder: 'account',
    scope: 'store',
    beyond: 'it ends',
  },
  newAccount: {
    what: 'time for which an account that anybody could create counts as its network',
    value: 30 * dayMs,
    unit: 'ms',
    holder: 'account',
    scope: 'store',
    beyond: 'it has a share of its own',
  },
  messages: {
    what: 'messages of the quickstart in 24 hours',
    value: 1000,
    holder: 'account',
    scope: 'store',
    beyond: '429',
  },
  messageAge: {
    what: 'time that a message of the quickstart is kept',
    value: dayMs,
    unit: 'ms',
    holder: 'account',
    scope: 'store',
    beyond: 'it is deleted',
  },
} as const satisfies Record<string, Limit>;

export type LimitName = keyof typeof limitTable;

/** The default of each limit. */
export const limits = Object.fromEntries(
  Object.entries(limitTable).map(([name, { value }]) => [name, value]),
) as Readonly<Record<LimitName, number>>;
