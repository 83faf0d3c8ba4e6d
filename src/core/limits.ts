/**
 * Every limit on what a client can take. docs/limits.md says what each one is, whom it counts against and what happens beyond it, in the same order: a
 * test compares the values.
 */

const kibibyte = 1024;
const mebibyte = 1024 * kibibyte;
const secondMs = 1000;
export const minuteMs = 60 * secondMs;
export const hourMs = 60 * minuteMs;
export const dayMs = 24 * hourMs;

/** By how much the clocks of servers may differ, or a clock may be set back, without an effect. */
export const clockSkewMs = 60 * secondMs;

/** For how long messages are kept, and count. */
export const messageAgeMs = 24 * hourMs;

/** Times are in milliseconds, sizes in bytes, names and passwords in characters (code points). */
const table = {
  connections: 5000,
  work: 4000,
  bodies: 2000,
  lookUps: 500,
  pipelined: 8192,
  pipelinedOnConnection: 250,
  unreadBytes: 32 * mebibyte,
  statementMs: 2300,
  request: 9 * secondMs,
  bodyRate: 8 * kibibyte,
  response: 30 * secondMs,
  stall: 4 * secondMs,
  keepAlive: 72 * secondMs,
  held: 700,
  // RFC 9112, section 3, asks for at least 8,000 octets.
  url: 8 * kibibyte,
  headerBytes: 16 * kibibyte,
  bodyBytes: 64 * kibibyte,
  petNameCharacters: 1000,
  // The longest form has a name and two passwords of 256 characters, percent-encoded.
  formBytes: 16 * kibibyte,
  rejectedKeys: 600,
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

export const limits: Readonly<Record<keyof typeof table, number>> = table;

/** Of a request. Node's default of 1,000 lets a packet of 16 KiB cost as much time as five requests. */
export const maxHeaders = 100;

/** A number as messages and documents write it: 65,536. */
export const inDigits = (count: number) => count.toLocaleString('en');
