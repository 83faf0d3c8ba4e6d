/** Tests of what the account pages show of the use of each key. */
import { describe, expect, test } from 'vitest';
import type { KeyUse } from '../../../src/core/usage.ts';
import { alertOf, makeKey, plainText, redirect, startPages } from '../../support/account-pages.ts';

const now = new Date('2027-03-01T10:00:00Z');
const dayMs = 24 * 60 * 60 * 1000;
const daysAgo = (days: number) => new Date(now.getTime() - days * dayMs);
const none = { succeeded: 0, clientErrors: 0, rateLimited: 0, serverErrors: 0, deprecatedCalls: 0 };
const lastError = { code: 'pet_not_found', at: now } as const;

/** Ada, who has made the key 2, which was used like this; and her two pages about it. */
async function open(uses: Omit<KeyUse, 'id'>[], time = now, options: Parameters<typeof startPages>[0] = {}) {
  const app = await startPages(options);
  app.setTime(time);
  const ada = await app.enterAs('ada');
  await makeKey(ada);
  await app.store.accounts.recordUses(uses.map((use) => ({ id: 2, ...use })));
  const [list, page] = [await ada.get('/account'), await ada.get('/account/keys/2')];
  return { app, ada, list, page };
}

/** Each bar of an outcome: its middle, top, and height. */
function barsOf(html: string, outcome: string): number[][] {
  const path = new RegExp(`<path class="${outcome}" d="([^"]*)"`).exec(html)?.[1] ?? '';
  return [...path.matchAll(/M(\d+) (\d+)v(\d+)/g)].map((bar) => bar.slice(1).map(Number));
}

describe('the use of a key', () => {
  test('is a chart of the last 30 days: the parts of a bar stand on each other, and the smallest can be seen', async () => {
    const { list, page } = await open([
      { ...none, lastUsedAt: daysAgo(30), succeeded: 9999 },
      { ...none, lastUsedAt: daysAgo(29), succeeded: 2000 },
      { ...none, lastUsedAt: now, succeeded: 500, clientErrors: 250, rateLimited: 1, serverErrors: 249 },
      { ...none, lastUsedAt: daysAgo(-1), succeeded: 9999 },
    ]);
    for (const { text } of [list, page]) {
      expect(text).toContain('viewBox="0 0 240 52"');
      expect(barsOf(text, 'succeeded')).toEqual([
        [4, 12, 39],
        [236, 42, 9],
      ]);
      expect(barsOf(text, 'clientErrors')).toEqual([[236, 37, 4]]);
      expect(barsOf(text, 'rateLimited')).toEqual([[236, 34, 2]]);
      expect(barsOf(text, 'serverErrors')).toEqual([[236, 29, 4]]);
      expect(text).toContain('aria-label="Requests a day from 2027-01-31 to 2027-03-01. Most on 2027-01-31: 2,000."');
      expect(plainText({ text } as typeof page)).toContain(
        '3,000 requests from 2027-01-31 to 2027-03-01, most on 2027-01-31: 2,000 2xx 2,500 4xx 250 429 1 5xx 249',
      );
    }
  });

  test('is a table by day, the newest first, with the last error of each day', async () => {
    const { list, page } = await open([
      { ...none, lastUsedAt: daysAgo(2), succeeded: 1200, deprecatedCalls: 3 },
      { ...none, lastUsedAt: now, succeeded: 1, clientErrors: 2, lastError },
    ]);
    const text = plainText(page);
    expect(text).toContain(
      'Day Requests 2xx 4xx 429 5xx Deprecated Last error 2027-03-01 3 1 2 0 0 0 10:00 pet_not_found 2027-02-27 1,200 1,200 0 0 0 3 Days without',
    );
    expect(text).toMatch(/^.*Usage of website.*State Active Last used 2027-03-01 10:00 UTC/);
    for (const shown of [list, page])
      expect(plainText(shown)).toContain('Last error: pet_not_found , 2027-03-01 10:00 UTC');
  });

  test('is none in 30 days: the pages say so, and have no chart and no table', async () => {
    const { list, page } = await open([{ ...none, lastUsedAt: daysAgo(30), succeeded: 1, deprecatedCalls: 1 }]);
    for (const shown of [list, page]) {
      expect(plainText(shown)).toContain('No requests in the last 30 days.');
      expect(shown.text).not.toMatch(/<svg|<table|Last error:|5 December 2030/);
    }
  });

  test('can be seen of a key that has ended, but not of the key of someone else', async () => {
    const { app, ada } = await open([]);
    await app.store.accounts.revokeKey(2);
    expect(plainText(await ada.get('/account/keys/2'))).toContain('State Revoked Last used never');
    const { id } = await app.newKey({ account: 'ada', expiresAt: new Date(0) });
    expect(plainText(await ada.get(`/account/keys/${id}`))).toContain('State Expired');
    for (const other of ['1', '99', 'x', '02']) {
      const page = await ada.get(`/account/keys/${other}`);
      expect([page.status, alertOf(page)]).toEqual([404, 'You have no such key.']);
    }
    expect(alertOf(await ada.get('/account/keys/'))).toBe('There is no such page.');
    expect(await app.open().get('/account/keys/2')).toMatchObject(redirect('/account/sign-in'));
  });
});

describe('a key that calls the deprecated operation', () => {
  const uses = (time: Date) => [{ ...none, lastUsedAt: time, clientErrors: 4, deprecatedCalls: 4 }];

  test('that is served beyond its end reads nothing of 410, and of no days left', async () => {
    const time = '2030-12-06T00:00:00Z';
    const { list } = await open(uses(new Date(time)), new Date(time), { enforceSunset: false });
    expect(plainText(list)).toContain('which ends on 5 December 2030.');
    expect(plainText(list)).not.toMatch(/410|left/);
  });

  test.for([
    ['2027-03-01T10:00:00Z', 'ends', '1,375 days are left. Calls in the last 30 days: 4, last on 2027-03-01.'],
    ['2030-12-03T23:00:00Z', 'ends', '2 days are left.'],
    ['2030-12-04T10:00:00Z', 'ends', '1 day is left.'],
    ['2030-12-05T00:00:00Z', 'ended', 'Calls get 410.'],
  ] as const)('at %s: its pages say what to change, and how long it works', async ([time, ends, left]) => {
    const { list, page } = await open(uses(new Date(time)), new Date(time));
    for (const shown of [list, page]) {
      const text = plainText(shown);
      expect(text).toContain(
        `This key called GET /pets/{petId} , which ${ends} on 5 December 2030. Use GET /pets with its`,
      );
      expect(text).toContain('follow the pages until the id appears or a greater one does ( see the reference )');
      expect(text).toContain(left);
    }
  });
});
