/**
 * Every limit on what a client can take. docs/limits.md says what each one is, whom it counts against and what happens beyond it, in the same order: a
 * test compares the values.
 */

const kibibyte = 1024;
const secondMs = 1000;
export const minuteMs = 60 * secondMs;
export const hourMs = 60 * minuteMs;
export const dayMs = 24 * hourMs;

/** The clocks of servers may differ by this much, and a clock may be set back by it, without an effect. */
export const clockSkewMs = 60 * secondMs;

/** How long messages are kept, and count for their account's limit. */
export const messageAgeMs = 24 * hourMs;

/** Names and passwords are in characters (code points). */
const table = {
  connections: 1000,
  inFlight: 1000,
  statementMs: 2300,
  requestMs: 9 * secondMs,
  silenceMs: 12 * secondMs,
  keepAliveMs: 72 * secondMs,
  // RFC 9112, section 3, asks for at least 8,000 octets.
  urlBytes: 8 * kibibyte,
  headerBytes: 16 * kibibyte,
  bodyBytes: 64 * kibibyte,
  petNameCharacters: 1000,
  // The longest form has a name and two passwords of 256 characters, percent-encoded.
  formBytes: 16 * kibibyte,
  rejectedKeys: 600,
  pages: 120,
  // An office behind one address has several people.
  pagesOfNetwork: 600,
  activeKeys: 50,
  keysPerDay: 100,
  passwordCharacters: 256,
  failedAttempts: 10,
  signUps: 50,
  linkUses: 50,
  passwordsPerNetwork: 10,
  sessions: 50,
  sessionLifetimeMs: 12 * hourMs,
  messages: 1000,
};

export type Limits = Readonly<Record<keyof typeof table, number>>;

export const limits: Limits = table;

/** Maximum number of headers of a request. With Node's default of 1,000, a packet of 16 KiB takes the time of five requests. */
export const maxHeaders = 100;

/** A number as messages and documents write it: 65,536. */
export const inDigits = (count: number) => count.toLocaleString('en');
