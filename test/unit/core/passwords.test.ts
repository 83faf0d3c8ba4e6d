/** Tests which passwords are accepted, and how they are hashed. How long the rules take is in system/process/cost.test.ts. */
import { argon2Sync } from 'node:crypto';
import { setImmediate as turn } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { passwordFault } from '../../../src/account/password-rules.ts';
import { createPasswords, type Hasher } from '../../../src/account/passwords.ts';
import { seededRandom } from '../../support/random.ts';

const password = 'seven otters sing at noon';

const random = seededRandom(16);
const draw = (alphabet: ArrayLike<string>, length: number) =>
  Array.from({ length }, () => alphabet[Math.floor(random() * alphabet.length)]).join('');

/** Those of the passwords that are not answered like this. */
const except = (passwords: readonly string[], fault: RegExp | undefined, name = 'ada') =>
  passwords.filter((text) => {
    const found = passwordFault(text, name);
    return fault === undefined ? found !== undefined : !found?.match(fault);
  });

describe('the length', () => {
  const length = (given: number) => `must have 15 to 256 characters; it has ${given}`;

  test.each([
    ['ASCII', 'kW7#qZ2!vR9$xT4%'],
    ['emoji', '🦊🐙🦉🐝🦄🐢🦖🐳🦩🦔🐌🦚🦜🐊🦥🦨'],
    ['combining characters', 'áéíóúÁÉÍÓÚćńśźĆŃ'.normalize('NFD')],
  ])('is 15 to 256 characters of %s, counted as code points after NFC', (_kind, alphabet) => {
    const characters = alphabet.match(/.\p{M}?/gu) as string[];
    const make = (count: number) => draw(characters, count);
    for (const count of [14, 257]) expect(passwordFault(make(count), 'ada')).toBe(length(count));
    for (const count of [15, 256]) expect(passwordFault(make(count), 'ada')).toBeUndefined();
  });

  test('of much longer text is refused at once', () => {
    const begun = performance.now();
    expect(passwordFault('qwerty1234'.repeat(100_000), 'ada')).toBe(length(1_000_000));
    expect(passwordFault('\u0301\u0316'.repeat(100_000), 'ada')).toBe(length(200_000));
    expect(performance.now() - begun).toBeLessThan(1000);
  });
});

test('a good password is accepted: random characters, and sentences in any script, with a common word in them', () => {
  const lower = 'abcdefghijklmnopqrstuvwxyz';
  const alphabets = [lower, `${lower}0123456789`, '0123456789', '!"#$%&\'()*+,-./:;<=>?@[\\]^_`{|}~'];
  const drawn = Array.from(Array(100), (_, at) => draw(alphabets[at % 4] as string, 18 + (at % 20)));
  const typed = [
    ...[password, 'staircase-pelican-mustard-forty', 'fjordmarblepretzelcanoe', 'Never eat soup with a fork!'],
    ...['password of my grandmother’s bicycle lock', 'our lhbjkjubz2957704 barn', 'qwerty and the dragon sleep'],
    ...[
      'пароль от моей дачи на озере',
      'शेर जंगल में सोता है',
      'القطة تنام على النافذة',
      '狐は茶色い犬を飛び越えます今日も',
    ],
    ...['🦊🐙🦉🐝🦄🐢🦖🐳🦩🦔🐌🦚🦜🐊🦥', ' leading and trailing spaces ', 'k q \u0000 v z w m \u0007 t r j p x'],
  ];
  expect(except([...drawn, ...typed], undefined)).toEqual([]);
});

/** Each has at least 15 characters. */
const common = {
  'listed as it is':
    '23176djivanfros lhbjkjubz2957704 1qaz2wsx3edc4rfv qwertyuiopasdfghjklzxcvbnm correcthorsebatterystaple',
  'a run': '987654321098765 11223344556677889900 147258369147258 zyxwvutsrqponml abcdefgh12345678 a1b2c3d4e5f6g7h8',
  'with digits': 'Password123456789! P4ssw0rd1234567 19900101-qwerty Summer2024!!!!! 15051992jessica! AnimalStore12345',
  repeated: 'passwordpassword1 letmeinletmein1 Passw0rd!Passw0rd!1 qwertyqwerty12345 12dragondragondragon',
  'two in one': 'manchesterunited michaeljordan23 mynameisjonathan iforgotmypassword monkeybanana12345',
};

describe('a common password', () => {
  test.each(Object.entries(common))('is refused: %s', (_kind, list) => {
    const passwords = list.split(' ');
    expect(passwords.filter((text) => text.length < 15)).toEqual([]);
    const forms = passwords.flatMap((text) => [text, text.toUpperCase(), `  ${text}!!!`]);
    expect(except(forms, /^is too common/)).toEqual([]);
  });

  test('is refused with spaces or punctuation between its words', () => {
    const texts = ['lorem ipsum dolor sit amet', 'Hello-World 2024!', 'nick1234-rem936', 'hello world hello world!'];
    const others = ['correct horse battery staple', 'the quick brown fox', 'i love you so much'];
    expect(except([...texts, ...others], /^is too common/)).toEqual([]);
  });

  test('is one that repeats, however long its part is', () => {
    const parts = ['a', 'ab', 'q8#nV', 'q8#nV2!xLp', 'seven otters sing', '🦊🐙🦉', 'e\u0301a\u0301o\u0301'];
    const few = ['aaaaaaaaaaaaaab', 'q8#nVq8#nVq8#nVq8', 'q8#nVQ8#NVq8#nv'];
    expect(except([...parts.map((part) => part.repeat(15)), ...few], /^must not repeat/)).toEqual([]);
  });

  test('is one that is a common one written twice or more often', () => {
    const twice = ['passwordpassword', 'PasswordPassword', 'password!password!', '12345678901234567890'];
    expect(except(twice, /^is a common password written twice$/)).toEqual([]);
    const often = ['dragondragondragon', 'qwertyqwertyqwe'];
    expect(except(often, /^is a common password written again and again$/)).toEqual([]);
  });

  test('of a name that is too long takes no time to find', () => {
    const begun = performance.now();
    passwordFault(password, `x${'\u0301\u0316'.repeat(100_000)}`);
    expect(performance.now() - begun).toBeLessThan(1000);
  });

  test('is the name of the account with little else, in any case and form', () => {
    const like = /^must be more than the name of the account$/;
    const name = 'Amélie from the harbor';
    const forms = [name, name.toUpperCase(), name.normalize('NFD')].flatMap((form) => [
      ...[form, `${form}1`, `${form}${form}`, `${form} 2024!`, `1.2.${form}1999`, `password-${form}-123456`],
    ]);
    expect(except(forms, like, name)).toEqual([]);
    expect(except(['ada_ada_ada_ada_1', 'ada-password-2024', 'ada1234567890ada'], like)).toEqual([]);
    expect(except([name], undefined)).toEqual([]);
    expect(except([`${name} and nine gulls`], undefined, name)).toEqual([]);
    expect(except(['482913750617394285'], undefined, '7')).toEqual([]);
  });
});

/** Each call is a turn of the same network. */
function openHasher(): Hasher {
  const { inTurn } = createPasswords();
  return {
    hash: (text) => inTurn('192.0.2.7', (hasher) => hasher.hash(text)),
    verify: (text, stored) => inTurn('192.0.2.7', (hasher) => hasher.verify(text, stored)),
  };
}

describe('the hash', () => {
  test('is argon2id at the parameters of OWASP, with a salt of its own', async () => {
    const { hash } = openHasher();
    const format = /^\$argon2id\$v=19\$m=19456,t=2,p=1\$([A-Za-z0-9+/]{22})\$([A-Za-z0-9+/]{43})$/;
    const [[, salt = '', tag], [, other]] = [format.exec(await hash(password)), format.exec(await hash(password))] as [
      RegExpExecArray,
      RegExpExecArray,
    ];
    expect(other).not.toBe(salt);
    const parameters = { memory: 19_456, passes: 2, parallelism: 1, tagLength: 32 };
    const expected = argon2Sync('argon2id', { message: password, nonce: Buffer.from(salt, 'base64'), ...parameters });
    expect(tag).toBe(expected.toString('base64').replace(/=+$/, ''));
  });

  test('verifies the right password only, in each normalization', async () => {
    const { hash, verify } = openHasher();
    const right = 'Ein Kühlschrank im Grünen';
    const stored = await hash(right);
    for (const text of [right, right.normalize('NFD')]) expect(await verify(text, stored)).toBe(true);
    for (const text of ['Ein Kuhlschrank im Grunen', right.toLowerCase(), `${right} `, '', '\0'])
      expect(await verify(text, stored), text).toBe(false);
    const malformed = [stored.slice(1), stored.replace('argon2id', 'argon2i'), stored.replace('v=19', 'v=16')];
    const others = [stored.slice(0, -1), stored.replace(stored.slice(-43), 'A'.repeat(43))];
    for (const other of [null, undefined, '', right, ...malformed, ...others])
      expect(await verify(right, other), String(other)).toBe(false);
  });

  test('of other parameters or of another program is verified', async () => {
    // A test vector of the reference implementation (https://github.com/P-H-C/phc-winner-argon2, src/test.c).
    const vector = '$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc';
    const { verify } = openHasher();
    expect([await verify('password', vector), await verify('passwore', vector)]).toEqual([true, false]);
  });

  test('is also computed for an account that does not exist', async () => {
    const { hash, verify } = openHasher();
    /** Processor time, which other programs disturb least: the least of three. */
    const timeOf = async (work: () => Promise<unknown>) => {
      const times: number[] = [];
      for (let time = 0; time < 3; time++) {
        const before = process.cpuUsage();
        await work();
        times.push(process.cpuUsage(before).user);
      }
      return Math.min(...times);
    };
    const [known, unknown] = [await timeOf(() => hash(password)), await timeOf(() => verify(password, undefined))];
    expect(unknown).toBeGreaterThan(known / 3);
  });
});

describe('hashes at the same time', () => {
  const outcomesOf = async (all: Promise<unknown>[]) => {
    const settled = await Promise.allSettled(all);
    return settled.map((result) => (result.status === 'fulfilled' ? 'done' : (result.reason.code ?? 'error')));
  };

  test('are 10 of a network at most; more are rejected at once', async () => {
    const { hash, verify } = openHasher();
    // argon2 rejects these parameters. An error gives the place back.
    for (const parameters of ['m=1,t=1,p=1', 'm=19456,t=0,p=1', 'm=19456,t=1,p=0'])
      expect(await outcomesOf([verify(password, `$argon2id$v=19$${parameters}$c29tZXNhbHQ$CTFh`)])).not.toContain(
        'done',
      );
    for (let round = 0; round < 2; round++) {
      const all = Array.from(Array(20), (_, at) => (at % 2 ? hash(password) : verify(password, null)));
      const outcomes = await outcomesOf(all);
      expect(outcomes).toEqual([...Array(10).fill('done'), ...Array(10).fill('service_unavailable')]);
    }
  });

  test('take turns by network: one that asks for many delays another by one hash, and cannot keep it out', async () => {
    const passwords = createPasswords();
    const order: string[] = [];
    const ask = (network: string) =>
      passwords.inTurn(network, async () => {
        await turn();
        order.push(network);
      });
    const busy = Array.from(Array(10), () => ask('busy'));
    await Promise.all([...busy, ...['first', 'second', 'third'].map(ask)]);
    // Two run at once, and one that waits has its turn before the others came.
    for (const network of ['first', 'second', 'third']) expect(order.indexOf(network)).toBeLessThan(7);
    expect(order.slice(-4)).toEqual(Array(4).fill('busy'));
  });

  test('that wait are 60, and a few networks cannot fill the line', async () => {
    const passwords = createPasswords();
    const { promise, resolve } = Promise.withResolvers<void>();
    const ask = (network: string) => passwords.inTurn(network, () => promise);
    const few = outcomesOf(Array.from(Array(70), (_, at) => ask(`network ${at % 7}`)));
    const others = outcomesOf(Array.from(Array(20), (_, at) => ask(`other ${at}`)));
    await turn();
    await expect(ask('a newcomer')).rejects.toMatchObject({
      ...{ code: 'service_unavailable', message: 'Other attempts are being checked: try again in a second.' },
    });
    resolve();
    const all = [...(await others), ...(await few)];
    expect(all.slice(0, 5)).toEqual(Array(5).fill('done'));
    expect(all.filter((outcome) => outcome === 'done')).toHaveLength(62);
  });
});
