/** The thread that estimates how many guesses find a password. The dictionaries of zxcvbn stay in its heap. */
import { type MessagePort, parentPort } from 'node:worker_threads';
import { ZxcvbnFactory } from '@zxcvbn-ts/core';
import * as common from '@zxcvbn-ts/language-common';
import * as english from '@zxcvbn-ts/language-en';

/** To the thread: a password and the name of its account, both in NFC. */
export interface Request {
  password: string;
  name: string;
}

/**
 * From the thread: that it is ready, then the power of ten of the guesses for each request. `type` distinguishes it from other messages: with
 * --watch, Node posts some from every thread.
 */
export interface Reply {
  type: 'guesses-reply';
  power: number;
}

/** What the dictionaries lack: quotations, a walk over the keyboard with and without Shift, and the words of this service. */
const phrases =
  `animalstore petstore helloworld iloveyousomuch maytheforcebewithyou correcthorsebatterystaple loremipsum loremipsumdolorsitamet
  thequickbrownfox thequickbrownfoxjumps thequickbrownfoxjumpsoverthelazydog supercalifragilisticexpialidocious !qaz2wsx#edc4rfv`.split(
    /\s+/,
  );

/**
 * zxcvbn's time grows with the square of the length, and with the number of ways to read `4` as `a`: an estimate of 256 characters with 100 ways
 * took 10 seconds. Within these bounds the worst input that was found takes 0.1 s.
 */
const bounds = { maxLength: 64, l33tMaxSubstitutions: 4 };

const zxcvbn = new ZxcvbnFactory({
  dictionary: { ...common.dictionary, ...english.dictionary, phrases },
  graphs: common.adjacencyGraphs,
  ...bounds,
});

/** A character between or around words, also if it is repeated. */
const gap = /([^\p{L}\p{M}\p{N}])\1*/gu;
/** What each gap adds: zxcvbn by itself finds a phrase with spaces a hundred million times as hard to guess as without. */
const gapPower = 1.5;

function powerOf({ password, name }: Request): number {
  const own = [name, name.replace(gap, '')];
  const asTyped = zxcvbn.check(password, own).guessesLog10;
  const words = password.replace(gap, '');
  const gaps = password.match(gap)?.length ?? 0;
  if (gaps === 0 || words === '') return asTyped;
  return Math.min(asTyped, zxcvbn.check(words, own).guessesLog10 + gapPower * gaps);
}

const port = parentPort as MessagePort;
const reply = (power: number) => port.postMessage({ type: 'guesses-reply', power } satisfies Reply);
port.on('message', (request: Request) => reply(powerOf(request)));
reply(0);
