/** Tests of the format, the checksum and the rejection of API keys. */
import { createHash } from 'node:crypto';
import { crc32 } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import { type ApiKey, hashKey, isKeyOf, newSecret, rejectionReason } from '../../../src/core/accounts.ts';

const digits = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';

/** The value of `text` as a Base62 number. */
const base62 = (text: string) => [...text].reduce((sum, digit) => sum * 62 + digits.indexOf(digit), 0);

describe.for([
  [true, 'ast_live_'],
  [false, 'ast_test_'],
] as const)('an API key (production: %s)', ([live, start]) => {
  const secrets = Array.from({ length: 200 }, () => newSecret(live));

  test(`starts with ${start}, then 30 Base62 characters and a CRC-32 in six`, () => {
    for (const { key } of secrets) {
      expect(key).toMatch(new RegExp(`^${start}[0-9A-Za-z]{36}$`));
      expect(base62(key.slice(-6))).toBe(crc32(key.slice(0, -6)));
      expect(isKeyOf(live, key)).toBe(true);
    }
  });

  test('uses every Base62 character and is unique', () => {
    expect(new Set(secrets.flatMap(({ key }) => [...key.slice(start.length, -6)])).size).toBe(62);
    expect(new Set(secrets.map(({ key }) => key)).size).toBe(200);
  });

  test('is identified by its first four random characters and stored as its SHA-256', () => {
    for (const { key, hint, hash } of secrets) {
      expect(hint).toBe(key.slice(0, start.length + 4));
      expect(hash).toEqual(createHash('sha256').update(key).digest());
      expect(hashKey(key)).toEqual(hash);
    }
  });

  test('is rejected in the other kind of deployment', () => {
    for (const { key } of secrets) expect(isKeyOf(!live, key)).toBe(false);
  });

  test('is rejected if one character is changed, removed or added', () => {
    const { key } = newSecret(live);
    for (let at = 0; at < key.length; at++) {
      expect(isKeyOf(live, key.slice(0, at) + key.slice(at + 1))).toBe(false);
      for (const other of '0aZ_')
        if (other !== key[at]) expect(isKeyOf(live, key.slice(0, at) + other + key.slice(at + 1))).toBe(false);
    }
    for (const text of [`${key}0`, `0${key}`, ` ${key}`, `${key} `, `${key}\n`, ''])
      expect(isKeyOf(live, text)).toBe(false);
  });
});

test('a checksum with leading zeros keeps its six digits', () => {
  const text = Array.from({ length: 100_000 }, (_, n) => `ast_test_${String(n).padStart(30, '0')}`).find(
    (candidate) => crc32(candidate) < 62 ** 4,
  ) as string;
  let check = '';
  for (let rest = crc32(text), place = 0; place < 6; place++) {
    check = digits.charAt(rest % 62) + check;
    rest = Math.floor(rest / 62);
  }
  expect(check).toMatch(/^00/);
  expect(isKeyOf(false, text + check)).toBe(true);
});

test('a key is rejected once it is revoked, and from the millisecond of its expiry', () => {
  const now = new Date('2027-01-01T00:00:00Z');
  const at = (ms: number) => new Date(now.getTime() + ms);
  const key = { revokedAt: null, expiresAt: null } as ApiKey;
  expect(rejectionReason(key, now)).toBeUndefined();
  expect(rejectionReason({ ...key, expiresAt: at(1) }, now)).toBeUndefined();
  expect(rejectionReason({ ...key, expiresAt: at(0) }, now)).toBe('expired_api_key');
  expect(rejectionReason({ ...key, expiresAt: at(-1) }, now)).toBe('expired_api_key');
  expect(rejectionReason({ ...key, revokedAt: at(-1) }, now)).toBe('revoked_api_key');
  expect(rejectionReason({ ...key, revokedAt: at(-1), expiresAt: at(-1) }, now)).toBe('revoked_api_key');
});
