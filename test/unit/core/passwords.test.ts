/** Tests which passwords are accepted, and how they are hashed. How long the rules take is in system/process/cost.test.ts. */
import { argon2Sync } from 'node:crypto';
import { setImmediate as turn } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { passwordFault } from '../../../src/account/password-rules.ts';
import { createPasswords, type Hasher } from '../../../src/account/passwords.ts';

const password = 'seven otters sing at noon';

const tooCommon = 'is too common: choose one that nobody else would think of';
const length = (given: number) => `must have 15 to 256 characters; it has ${given}`;

/** What the rules say of the passwords of a person with the name `Amélie of the bay`. */
const rules: [kind: string, fault: string | undefined, ...passwords: string[]][] = [
  [
    '14 code points after NFC',
    length(14),
    'kW7#qZ2!vR9$xT',
    '🦊🐙🦉🐝🦄🐢🦖'.repeat(2),
    `${'áéíóúÁ'.normalize('NFD').repeat(2)}ab`,
  ],
  ['257', length(257), `${'kW7#qZ2!'.repeat(32)}x`],
  ['15 and 256', undefined, '🦊🐙🦉'.repeat(5), 'áéíóú'.normalize('NFD').repeat(3), 'kW7#qZ2!'.repeat(32)],
  ['in the dictionary', tooCommon, '23176djivanfros', 'LHBJKJUBZ2957704'],
  ['a known phrase', tooCommon, 'maytheforcebewithyou', 'Correct Horse Battery Staple', 'lorem ipsum dolor sit amet'],
  ['repeated', tooCommon, '111111111111111', 'aaaaaaaaaaaaaaaaaaaa', '................'],
  [
    'in sequence',
    tooCommon,
    '123456789012345',
    '345678901234567890',
    '098765432109876',
    'zyxwvutsrqponmlk',
    'qwertyuiopqwert',
  ],
  ['a word more than once', tooCommon, 'passwordpassword', 'dragondragondragon', 'administratoradministrator'],
  ['a word with digits', tooCommon, 'password1234567', 'Petstore1234567890'],
  [
    'the name',
    'must not be the name of the account',
    ...['Amélie of the bay', 'AMÉLIE OF THE BAY'].flatMap((name) => [name, name.normalize('NFD')]),
  ],
  [
    'more than the name or a common one',
    undefined,
    'Amélie of the bay 7',
    'password of my grandmother’s lock',
    'lhbjkjubz2957704 barn',
  ],
  ['random', undefined, 'fjordmarblepretzelcanoe', '482913750617394', 'k q \u0000 v z w m \u0007 t r j p x'],
  [
    'in any script',
    undefined,
    'пароль от моей дачи на озере',
    'शेर जंगल में सोता है',
    'القطة تنام على النافذة',
    '狐は茶色い犬を飛び越えます今日も',
  ],
];

test.each(rules)('a password that is %s: %s', (_kind, fault, ...passwords) => {
  for (const text of passwords) expect(passwordFault(text, 'Amélie of the bay'), text).toBe(fault);
});

test('a password that is much too long takes no time', () => {
  const begun = performance.now();
  expect(passwordFault('\u0301\u0316'.repeat(100_000), 'ada')).toBe(length(200_000));
  expect(performance.now() - begun).toBeLessThan(1000);
});

/** A hash takes a tenth of a millisecond. */
const cheap = { memory: 8, passes: 1, parallelism: 1 };

/** Each call is a turn of the same network. Without a cost, that of production. */
function openHasher(cost?: typeof cheap): Hasher {
  const { inTurn } = createPasswords(cost);
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
    const { hash, verify } = openHasher(cheap);
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
    const { hash, verify } = openHasher(cheap);
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
      code: 'service_unavailable',
      message: 'Other attempts are being checked: try again in a second.',
    });
    resolve();
    const all = [...(await others), ...(await few)];
    expect(all.slice(0, 5)).toEqual(Array(5).fill('done'));
    expect(all.filter((outcome) => outcome === 'done')).toHaveLength(62);
  });
});
