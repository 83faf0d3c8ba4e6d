/** Tests that durations go on when the wall clock steps, and that an Idempotency-Key is remembered. */
import { expect, onTestFinished, test, vi } from 'vitest';
import { startPages, wrong } from '../support/account-pages.ts';
import { startApp } from '../support/app.ts';

test.for([-60, -10, 24 * 60])(
  'a minute of RATE_LIMIT ends after a minute, though the clock steps by %i',
  async (minutes) => {
    vi.useFakeTimers({ toFake: ['performance', 'Date'] });
    onTestFinished(() => void vi.useRealTimers());
    const { get, newKey } = await startApp({ requestsPerMinute: 2, limits: { rejectedKeys: 1 } });
    const { key: other } = await newKey();
    const statuses = async () => [
      (await get('/v1/pets', { key: other })).status,
      (await get('/v1/pets', { key: 'junk' })).status,
    ];
    expect(await statuses()).toEqual([200, 401]);
    vi.setSystemTime(Date.now() + minutes * 60_000);
    expect(await statuses()).toEqual([200, 429]);
    vi.advanceTimersByTime(59_999);
    expect(await statuses()).toEqual([429, 429]);
    vi.advanceTimersByTime(1);
    const { status, headers } = await get('/v1/pets', { key: other });
    expect([status, headers['ratelimit-limit'], headers['ratelimit-remaining'], headers['ratelimit-reset']]).toEqual([
      200,
      '2',
      '1',
      '60',
    ]);
    expect((await get('/v1/pets', { key: 'junk' })).status).toBe(401);
  },
);

test.for([-60, -10, 24 * 60])('failed attempts to sign in count on, though the clock steps by %i', async (minutes) => {
  vi.useFakeTimers({ toFake: ['Date'] });
  onTestFinished(() => void vi.useRealTimers());
  const { signIn } = await startPages();
  for (let failed = 0; failed < 10; failed++) {
    expect((await signIn('ada', wrong)).status).toBe(403);
    if (failed === 0) vi.setSystemTime(Date.now() + minutes * 60_000);
  }
  const { status, headers } = await signIn('ada', wrong);
  expect([status, Number(headers['retry-after']) <= 15 * 60]).toEqual([429, true]);
});

test('a clock that steps two days ahead and back forgets no Idempotency-Key', async () => {
  const { add, setTime } = await startApp();
  const start = Date.now();
  const tryAt = async (hours: number, key: string, name = 'Biscuit') => {
    setTime(new Date(start + hours * 3600_000));
    const { status, json, headers } = await add({ name, categoryId: 7 }, { 'idempotency-key': key });
    return headers['idempotent-replayed'] ? `again ${json.id}` : (json.code ?? `${status} ${json.id}`);
  };
  expect(await tryAt(0, 'kept')).toBe('201 1');
  expect(await tryAt(0, 'anew')).toBe('201 2');
  expect(await tryAt(48, 'ahead')).toBe('201 3');
  // It is older than 24 hours now: this create replaces it, with a time that is in the future after the step back.
  expect(await tryAt(48, 'anew', 'Other')).toBe('201 4');
  expect(await tryAt(0, 'kept')).toBe('again 1');
  expect(await tryAt(0, 'kept', 'Other')).toBe('idempotency_key_reused');
  expect(await tryAt(0, 'ahead')).toBe('again 3');
  expect(await tryAt(0, 'anew', 'Other')).toBe('again 4');
  expect(await tryAt(24 * 365, 'far-ahead')).toBe('201 5');
  expect(await tryAt(0, 'far-ahead')).toBe('again 5');
});
