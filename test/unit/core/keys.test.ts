/** Tests of the format, the checksum and the rejection of API keys. */
import { createHash } from 'node:crypto';
import { crc32 } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import { isKeyOf, newSecret } from '../../../src/core/accounts.ts';

const digits = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';

/** The value of `text` as a Base62 number. */
const base62 = (text: string) => [...text].reduce((sum, digit) => sum * 62 + digits.indexOf(digit), 0);

describe.for([
  [true, 'ast_live_'],
  [false, 'ast_test_'],
] as const)('an API key (production: %s)', ([live, start]) => {
  test(`starts with ${start}, then 30 random Base62 characters and a CRC-32 in six`, () => {
    const secrets = Array.from(Array(200), () => newSecret(live));
    for (const { key, hint, hash } of secrets) {
      expect(key).toMatch(new RegExp(`^${start}[0-9A-Za-z]{36}$`));
      expect(base62(key.slice(-6))).toBe(crc32(key.slice(0, -6)));
      expect([isKeyOf(live, key), isKeyOf(!live, key)]).toEqual([true, false]);
      expect(hint).toBe(key.slice(0, start.length + 4));
      expect(hash).toEqual(createHash('sha256').update(key).digest());
    }
    expect(new Set(secrets.flatMap(({ key }) => [...key.slice(start.length, -6)])).size).toBe(62);
    expect(new Set(secrets.map(({ key }) => key)).size).toBe(200);
    // Every fifth checksum has a leading zero.
    expect(secrets.some(({ key }) => key.at(-6) === '0')).toBe(true);
  });

  test('is rejected if one character is changed, removed or added', () => {
    const { key } = newSecret(live);
    const others = [`${key}0`, `0${key}`, ` ${key}`, `${key} `, `${key}\n`, ''];
    for (let at = 0; at < key.length; at++)
      for (const other of ['', '0', 'a', 'Z', '_'])
        if (other !== key[at]) others.push(key.slice(0, at) + other + key.slice(at + 1));
    expect(others.filter((text) => isKeyOf(live, text))).toEqual([]);
  });
});
