/** Passwords of people: which are accepted, and how they are hashed (NIST SP 800-63B-4, section 3.1.1; OWASP Password Storage Cheat Sheet). */
import { type Argon2Parameters, argon2, randomBytes, timingSafeEqual } from 'node:crypto';
import { promisify } from 'node:util';
import { ApiError } from '../core/errors.ts';
import { limits } from '../core/limits.ts';
import { createPlaces } from '../core/places.ts';
import { toNfc } from '../core/schema.ts';

const minCharacters = 15;

/** Why a password is refused, as the end of the sentence "The password …", or undefined. `name`: the name of its account. */
export function passwordFault(password: string, name: string): string | undefined {
  const text = toNfc(password, limits.passwordCharacters);
  // A character is a code point (NIST SP 800-63B-4, section 3.1.1.2).
  const { length } = [...text];
  if (length < minCharacters || length > limits.passwordCharacters)
    return `must have ${minCharacters} to ${limits.passwordCharacters} characters; it has ${length}`;
  if (text.toLowerCase() === name.normalize('NFC').toLowerCase()) return 'must not be the name of the account';
  if (isRepetition(text)) return 'must not repeat the same characters';
  if (isCommon(text, name)) return 'is too common: choose one that nobody else would think of';
  return undefined;
}

/** Whether the text has fewer than 5 different characters, or is a shorter text written several times. */
function isRepetition(text: string): boolean {
  if (new Set(text).size < 5) return true;
  for (let period = 1; period <= text.length / 2; period++) {
    if (text.slice(period) === text.slice(0, -period)) return true;
  }
  return false;
}

/** What common passwords are made of: first names, days, months, numbers, colours, animals, places, clubs, brands, and well-known phrases. */
const words = new Set(
  `access account admin administrator adobe alexander always amanda amazon america amet andrew android angel angels animal animals animalstore
  anthony apple april arsenal asdf ashley assword autumn azerty baby babygirl bailey banana baseball basketball batman battery bear
  beautiful berlin black blink blue boston brother brown bulldog buster butterfly california canada celtic changeme character characters charlie
  cheese chelsea china chocolate coffee college computer cookie correct correcthorsebatterystaple corvette customer dallas daniel
  darling database daughter december default demo denver diamond dolor dolphin dragon eagle eight eighteen eleven eminem england everyone facebook
  falcon fall family father february ferrari fifteen first five florida flower flowers football forever four fourteen france freedom friday friend
  friends george germany ginger gmail google green guest hannah harley harrypotter heaven hello hockey holiday honey horse hotmail hottie houston
  hundred hunter husband iloveyou india instagram internet iphone ipsum january jazz jennifer jessica jesus jesuschrist jordan joshua july jump
  jumped jumping jumps jumpsoverthelazydog june justin juventus killer king lakers laptop lazy letmein lion liverpool login london long lorem
  loremipsumdolorsitamet lovely loveme maggie manager manchester manchesterunited march marketing martin master matrix matthew
  maytheforcebewithyou merlin mexico michael michelle million minecraft monday money monkey month mother music mustang name netflix network
  newyork nicole nine nineteen november october office one orange panther paris parola pass passw passwd password patrick pepper pizza pokemon
  prince princess production purple queen quick qwert rainbow ranger rangers red robert root russia samsung saturday school secret secrets secure
  september server service seven seventeen shadow silver sister sixteen snoopy soccer spongebob spongebobsquarepants spring staging standard
  staple starwars steelers store strong student summer sunday sunshine super supercalifragilisticexpialidocious superman support sweet sweetheart
  sword system taylor teacher temporary tennis test testing texas thequickbrownfox thirteen thirty thomas thousand three thunder thursday tiger
  tigger today tomorrow trustno tuesday twelve twenty twitter united university unlock user wednesday week welcome whatever white william windows
  winter wolf word world yahoo yankees year yellow yesterday youtube zero`.split(/\s+/),
);

/**
 * Passwords of 15 characters or more in `passwords-common` of @zxcvbn-ts/language-common 4.1.3, a list of leaked ones, that no rule below finds.
 */
const leaked = new Set(
  `23176djivanfros aksjdlasdakj89879 bhrh0h2oof6xbqjeh bpgjldsgjldthnf hd764nw5d7e1vb1 hd764nw5d7e1vbv lhbjkjubz2957704 lytdybrbdfvgbhf
  mailcreated5240 momsanaladventure ne_e_pod_chehyl nemvxyheqdd5oqxyxyzi nick1234-rem936 polniypizdec0211 polniypizdec1102 polniypizdec110211
  zqjphsyf6ctifgu`.split(/\s+/),
);

/** Short words between them. */
const links = new Set(['a', 'and', 'i', 'is', 'love', 'me', 'much', 'my', 'so', 'the', 'this', 'very', 'you']);
const years = /^(19[5-9]|20[0-3])\d$/;
const longest = Math.max(...[...words].map(({ length }) => length));

/** Characters that people type in this order, or backwards: the alphabet, numbers, and rows, columns and zigzags of keyboards. */
const runs = [
  ...['abcdefghijklmnopqrstuvwxyz', '12345678901234567890', '0102030405060708091011', '00112233445566778899001122'],
  ...[
    '122333444455555666666',
    '111222333444555666777888999',
    'aabbccddeeffgghh',
    'a1b2c3d4e5f6g7h8i9j0',
    '147258369147',
    '789456123789',
  ],
  ...[
    'qwertyuiopasdfghjklzxcvbnm',
    'qwertzuiopasdfghjklyxcvbnm',
    'azertyuiopqsdfghjklmwxcvbn',
    'qweasdzxcqweasdzxc',
    'qwerasdfzxcv',
  ],
  ...[
    'qwertasdfgzxcvb',
    'qazwsxedcrfvtgbyhnujmikolp',
    '1qaz2wsx3edc4rfv5tgb6yhn7ujm8ik9ol0p',
    'zaq12wsxcde34rfvbgt56yhn',
    '1qazxsw23edcvfr45tgb',
  ],
  ...[
    '1q2w3e4r5t6y7u8i9o0p',
    'q1w2e3r4t5y6u7i8o9p0',
    '1qa2ws3ed4rf5tg6yh7uj8ik9ol',
    '!@#$%^&*()',
    '1!2@3#4$5%6^7&8*9(0)',
  ],
].flatMap((run) => [run, [...run].reverse().join('')]);

const lookalikes: Record<string, string> = {
  '@': 'a',
  '4': 'a',
  '3': 'e',
  '0': 'o',
  $: 's',
  '5': 's',
  '7': 't',
  '!': 'i',
};

/** Passwords that fewer than 10 to this power guesses find count as common. */
const minPower = 12;

function isCommon(text: string, name: string): boolean {
  const plain = text.toLowerCase();
  const letters = plain.replace(/[^\p{L}\p{N}]/gu, '');
  // Punctuation between the words of a phrase adds little.
  return (
    leaked.has(plain) ||
    powerOf(plain, name.toLowerCase()) < minPower ||
    (letters !== '' && powerOf(letters, name.toLowerCase()) + 2 < minPower)
  );
}

/**
 * The power of ten of the guesses that find `text`, if they try common pieces first: the cheapest way to write it as single characters,
 * words, years, runs, repetitions and the account's name; at most `minPower`. The time is bounded: the text has at most 256 characters.
 */
function powerOf(text: string, name: string): number {
  const replaced = text.replace(/[@430$57!]/g, (character) => lookalikes[character] as string);
  const powers = [0];
  const reach = (end: number, power: number) => {
    powers[end] = Math.min(powers[end] ?? Number.POSITIVE_INFINITY, power);
  };
  for (let at = 0; at < text.length; at++) {
    // The rest of a strong password is not looked at: no step makes a power smaller.
    if (powers.every((power, end) => end < at || power >= minPower)) return minPower;
    const before = powers[at] as number;
    reach(at + 1, before + (/\d/.test(text[at] as string) ? 1 : 1.5));
    if (name !== '' && text.startsWith(name, at)) reach(at + name.length, before + 1);
    if (years.test(text.slice(at, at + 4))) reach(at + 4, before + 2);
    for (let end = at + 1; end <= Math.min(at + longest, text.length); end++) {
      const piece = text.slice(at, end);
      if (words.has(piece) || words.has(replaced.slice(at, end))) reach(end, before + 3);
      else if (links.has(piece)) reach(end, before + 1);
      if (piece.length >= 3 && at >= piece.length && text.startsWith(piece, at - piece.length)) reach(end, before + 1);
    }
    for (let end = at + runLength(text, at); end >= at + 3; end--) reach(end, before + 2);
  }
  return powers[text.length] as number;
}

/** The length of the longest run, or repetition of one character, at a place. */
function runLength(text: string, at: number): number {
  const start = text.slice(at, at + 3);
  const lengths = runs.map((run) => {
    const from = run.indexOf(start);
    let length = 0;
    while (from >= 0 && run[from + length] !== undefined && run[from + length] === text[at + length]) length += 1;
    return length;
  });
  let same = 1;
  while (text[at + same] === text[at]) same += 1;
  return Math.max(same, ...lengths);
}

/** OWASP's parameters: 19 MiB, 2 passes, 1 lane; 60 to 110 ms of one processor. */
const cost = { memory: 19_456, passes: 2, parallelism: 1 };
const tagLength = 32;
const nonceLength = 16;

/** A hash in the PHC string format (https://github.com/P-H-C/phc-string-format). */
const phc = /^\$argon2id\$v=19\$m=(\d+),t=(\d+),p=(\d+)\$([A-Za-z0-9+/]+)\$([A-Za-z0-9+/]+)$/;

const base64 = (bytes: Buffer) => bytes.toString('base64').replace(/=+$/, '');

/** Hashes passwords outside of the main thread. Each hash takes 19 MiB and one of the four threads that Node also uses for files. */
export interface Hasher {
  /** Resolves to the hash to store. */
  hash(password: string): Promise<string>;
  /**
   * Whether `password` has the stored hash. Without a hash it resolves to false after the same time, so that the time does not tell whether
   * the account exists.
   */
  verify(password: string, stored: string | null | undefined): Promise<boolean>;
}

export interface Passwords {
  /**
   * Runs `work` when it is the turn of `network`: a few run at a time, and networks take turns, however much each of them asks for. Rejects
   * with ApiError `service_unavailable` if too many of the network, or of all, are waiting.
   */
  inTurn<Result>(network: string, work: (hasher: Hasher) => Promise<Result>): Promise<Result>;
}

const derive = promisify(argon2) as (algorithm: 'argon2id', parameters: Argon2Parameters) => Promise<Buffer>;

const tagOf = (password: string, nonce: Buffer, parameters: typeof cost) =>
  derive('argon2id', { message: toNfc(password, limits.passwordCharacters), nonce, tagLength, ...parameters });

const hasher: Hasher = {
  async hash(password) {
    const nonce = randomBytes(nonceLength);
    const tag = await tagOf(password, nonce, cost);
    return `$argon2id$v=19$m=${cost.memory},t=${cost.passes},p=${cost.parallelism}$${base64(nonce)}$${base64(tag)}`;
  },

  async verify(password, stored) {
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
};

export function createPasswords(): Passwords {
  const waiting = new Map<string, (() => void)[]>();
  const places = createPlaces<string>(limits.passwordsWaiting);
  const held = new Map<string, number>();
  let running = 0;

  async function enter(network: string): Promise<void> {
    if (running < limits.passwordsRunning) {
      running += 1;
      return;
    }
    if (!places.take(network)) throw busy();
    await new Promise<void>((resolve) => waiting.set(network, [...(waiting.get(network) ?? []), resolve]));
    places.give(network);
  }

  /** The place goes to the network whose turn is next. It goes to the end of the line if it waits for more. */
  function leave(): void {
    const [next] = waiting;
    if (!next) {
      running -= 1;
      return;
    }
    const [network, [resolve, ...others]] = next as [string, [() => void, ...(() => void)[]]];
    waiting.delete(network);
    if (others.length > 0) waiting.set(network, others);
    resolve();
  }

  return {
    async inTurn(network, work) {
      const own = held.get(network) ?? 0;
      if (own >= limits.passwordsPerNetwork) throw busy();
      held.set(network, own + 1);
      try {
        await enter(network);
        try {
          return await work(hasher);
        } finally {
          leave();
        }
      } finally {
        const left = (held.get(network) as number) - 1;
        if (left > 0) held.set(network, left);
        else held.delete(network);
      }
    },
  };
}

const busy = () => new ApiError('service_unavailable', 'Other attempts are being checked: try again in a second.');
