/** Tests of what the account pages show of the use of each key. */
import { expect, onTestFinished, test, vi } from 'vitest';
import type { KeyUse } from '../../../src/core/usage.ts';
import { keyOf, makeKey, password, plainText, startPages } from '../../support/account-pages.ts';
import type { FormClient } from '../../support/form-client.ts';

const now = new Date('2027-03-01T10:00:00Z');
const daysAgo = (days: number) => new Date(now.getTime() - days * 24 * 60 * 60 * 1000);
const none = { succeeded: 0, clientErrors: 0, rateLimited: 0, serverErrors: 0, deprecatedCalls: 0 };

/** Ada, who has made the key 2, which was used like this; and her two pages about it. */
async function open(uses: Omit<KeyUse, 'id'>[], time = now, options: Parameters<typeof startPages>[0] = {}) {
  const app = await startPages(options);
  app.setTime(time);
  const ada = await app.enterAs('ada');
  await makeKey(ada);
  await app.store.accounts.recordUses(uses.map((use) => ({ id: 2, ...use })));
  return { app, ada, pages: [await ada.get('/account'), await ada.get('/account/keys/2')] as const };
}

test('the use of a key is its requests today in the list, and on its page a chart of 30 days, whose smallest parts can be seen, and a table', async () => {
  const errors = [{ code: 'pet_not_found', at: now, operation: 'GET /v1/pets/{petId}', requestId: '4cd1-9a' }];
  const today = { succeeded: 500, clientErrors: 250, rateLimited: 1, serverErrors: 249, deprecatedCalls: 3 };
  const { pages } = await open([
    { ...none, lastUsedAt: daysAgo(30), succeeded: 9999 },
    { ...none, lastUsedAt: daysAgo(29), succeeded: 2000 },
    { ...today, lastUsedAt: now, errors },
    { ...none, lastUsedAt: daysAgo(-1), succeeded: 9999 },
  ]);
  // Beside the bar of 2,000 requests, that of one can be seen.
  expect(pages[1].text).toContain('class="rateLimited" d="M236 109v2');
  expect(plainText(pages[0])).toContain('1,000 requests today');
  expect(pages[0].text).not.toContain('<svg');
  const text = plainText(pages[1]);
  for (const shown of [
    'Last errors Time (UTC) Operation Code Request id 2027-03-01 10:00:00 GET /v1/pets/{petId} pet_not_found 4cd1-9a By day',
    '2xx 2,500 4xx 250 429 1 5xx 249',
    '3,000 requests, 16.7% errors from 2027-01-31 to 2027-03-01 (UTC), most on 2027-01-31: 2,000',
  ])
    expect(text).toContain(shown);
  expect(text).toContain(
    'Last error 2027-03-01 1,000 500 250 1 249 3 10:00 pet_not_found 2027-01-31 2,000 2,000 0 0 0 0 Days without',
  );
});

test('the use of a key is none in 30 days: the pages say so, and have no chart and no table', async () => {
  const { pages } = await open([{ ...none, lastUsedAt: daysAgo(30), succeeded: 1, deprecatedCalls: 1 }]);
  for (const page of pages) {
    expect(plainText(page)).toMatch(/No requests (today|in the last 30 days)/);
    expect(page.text).not.toMatch(/<svg|<table|5 December 2030|Deprecated calls|Last errors/);
  }
});

test('the use can be seen of a key that has ended', async () => {
  const { app, ada } = await open([]);
  const { id } = await app.newKey({ account: 'ada', expiresAt: new Date(0) });
  await app.store.accounts.revokeKey(2);
  expect(plainText(await ada.get('/account/keys/2'))).toMatch(/Last used never Revoked now/);
  expect(plainText(await ada.get(`/account/keys/${id}`))).toContain('Last used never Expired 57 years ago');
});

test.for([
  ['2027-03-01T10:00:00Z', 'ends', '( see the reference ). Calls in the last 30 days: 4, last on 2027-03-01.'],
  ['2030-12-04T10:00:00Z', 'ends', '( see the reference ). Calls in the last 30 days: 4'],
  ['2030-12-05T00:00:00Z', 'ended', 'Calls get 410.'],
  // Served beyond its end.
  ['2030-12-06T00:00:00Z', 'ends', '( see the reference ). Calls in the last 30 days: 4', false],
] as const)('of a key that calls the deprecated operation, at %s, its page says what to change', async (row) => {
  const [time, ends, left, enforceSunset = true] = row;
  const lastUsedAt = new Date(time);
  const use = { ...none, lastUsedAt, clientErrors: 4, deprecatedCalls: 4 };
  const { pages } = await open([use], lastUsedAt, { enforceSunset });
  expect(pages[0].text).toContain('<dt>Deprecated calls today</dt><dd><a href="/account/keys/2#deprecated">4</a></dd>');
  const text = plainText(pages[1]);
  expect(text).toContain(
    `This key called GET /pets/{petId} , which ${ends} on 5 December 2030. Use GET /pets with its`,
  );
  expect(text).toContain(left);
});

test('what an error had is text: nothing of it becomes HTML', async () => {
  const [operation, code, requestId] = ['<i>operation', '<i>code"', '<i>id'] as const;
  const { pages } = await open([{ ...none, lastUsedAt: now, errors: [{ operation, code, requestId, at: now }] }]);
  expect(pages[1].text).toContain('&lt;i&gt;operation');
  for (const unsafe of ['<i>', 'code"']) expect(pages[1].text).not.toContain(unsafe);
});

test('the list of keys shows the rate limit and what is left of it: what the headers say, and looking counts nothing', async () => {
  vi.useFakeTimers({ toFake: ['performance'] });
  onTestFinished(() => void vi.useRealTimers());
  const app = await startPages({ requestsPerMinute: 3 });
  const ada = await app.enterAs('ada');
  const eve = app.open();
  await eve.post('/account/sign-up', { name: 'eve', password });
  const shown = async (client: FormClient) =>
    /Rate limit: .*? on this server\./.exec(plainText(await client.get('/account')))?.[0];
  for (const [client, whom] of [
    [ada, ''],
    // Whoever signs up shares it with the accounts of the same network.
    [eve, ', shared with all accounts that were created from the same network as yours'],
  ] as const) {
    const own = (left: number) => `Rate limit: 3 requests a minute${whom}; ${left} left on this server.`;
    const key = keyOf(await makeKey(client));
    for (const left of [2, 1, 0, 0]) {
      expect((await app.get('/v1/pets', { key })).headers['ratelimit-remaining']).toBe(`${left}`);
      expect([await shown(client), await shown(client)]).toEqual([own(left), own(left)]);
    }
    // Not that of another account.
    expect((await app.get('/v1/pets')).headers['ratelimit-remaining']).toBe('2');
    vi.advanceTimersByTime(59_999);
    expect(await shown(client)).toBe(own(0));
    vi.advanceTimersByTime(1);
    expect(await shown(client)).toBe(own(3));
  }
});

test('the list of keys shows no rate limit if there is none', async () => {
  const ada = await (await startPages()).enterAs('ada');
  expect(plainText(await ada.get('/account'))).not.toContain('Rate limit');
});
