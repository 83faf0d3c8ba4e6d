/** Hashes the passwords of people (OWASP Password Storage Cheat Sheet), a few at a time. */
import { type Argon2Parameters, argon2, randomBytes, timingSafeEqual } from 'node:crypto';
import type { Socket } from 'node:net';
import { promisify } from 'node:util';
import { limits } from '../core/limits.ts';
import { toNfc } from '../core/schema.ts';
import { createLine } from './line.ts';

/** The cost of a hash: `memory` in KiB. */
export type Cost = Pick<Argon2Parameters, 'memory' | 'passes' | 'parallelism'>;

/** OWASP's parameters: 19 MiB, 2 passes, 1 lane; 60 to 110 ms of one processor. */
const owasp: Cost = { memory: 19_456, passes: 2, parallelism: 1 };
const tagLength = 32;
const nonceLength = 16;

/** A hash in the PHC string format (https://github.com/P-H-C/phc-string-format). */
const phc = /^\$argon2id\$v=19\$m=(\d+),t=(\d+),p=(\d+)\$([A-Za-z0-9+/]+)\$([A-Za-z0-9+/]+)$/;

const base64 = (bytes: Buffer) => bytes.toString('base64').replace(/=+$/, '');

/** Passwords that are hashed at the same time, and that wait for it. */
const maxRunning = 2;
const maxWaiting = 60;

const derive = promisify(argon2);

const tagOf = (password: string, nonce: Buffer, cost: Cost) =>
  derive('argon2id', { message: toNfc(password, limits.passwordCharacters), nonce, tagLength, ...cost });

/** Hashes passwords outside of the main thread. Each hash takes 19 MiB and one of the four threads that Node also uses for files. */
const createHasher = (cost: Cost) => ({
  /** Resolves to the hash to store. */
  async hash(password: string): Promise<string> {
    const nonce = randomBytes(nonceLength);
    const tag = await tagOf(password, nonce, cost);
    return `$argon2id$v=19$m=${cost.memory},t=${cost.passes},p=${cost.parallelism}$${base64(nonce)}$${base64(tag)}`;
  },

  /**
   * Whether `password` has the stored hash. Without a hash it resolves to false after the same time, so that the time does not tell whether
   * the account exists.
   */
  async verify(password: string, stored: string | null | undefined): Promise<boolean> {
    const [, memory, passes, parallelism, nonce, tag] = phc.exec(stored ?? '') ?? [];
    if (nonce === undefined || tag === undefined) {
      await tagOf(password, randomBytes(nonceLength), cost);
      return false;
    }
    const parameters = { memory: Number(memory), passes: Number(passes), parallelism: Number(parallelism) };
    const found = await tagOf(password, Buffer.from(nonce, 'base64'), parameters);
    const expected = Buffer.from(tag, 'base64');
    return expected.length === found.length && timingSafeEqual(expected, found);
  },
});

export type Hasher = ReturnType<typeof createHasher>;

/** `cost`: of new hashes. A stored hash is checked at the cost that it names. */
export function createPasswords(cost = owasp) {
  const hasher = createHasher(cost);
  const inTurn = createLine({ running: maxRunning, waiting: maxWaiting, ofNetwork: limits.passwordsPerNetwork });
  return {
    /** Runs `work` when it is the turn of `network`. Rejects like a line (line.ts). */
    inTurn: <Result>(network: string, work: (hasher: Hasher) => Promise<Result>, socket?: Socket) =>
      inTurn(network, () => work(hasher), socket),
  };
}

export type Passwords = ReturnType<typeof createPasswords>;
