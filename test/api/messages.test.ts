/** Tests of POST /quickstart/messages. What it refuses is in operations.test.ts. */
import { expect, onTestFinished, test, vi } from 'vitest';
import { hourMs, limits } from '../../src/core/limits.ts';
import { startApp } from '../support/app.ts';
import { runSql, textRows } from '../support/store.ts';

test('an account has a bounded number of messages, kept for 24 hours; beyond it, 429', async () => {
  vi.useFakeTimers({ toFake: ['performance'] });
  onTestFinished(() => void vi.useRealTimers());
  const { call, newKey, setTime, store, databaseUrl } = await startApp();
  const begun = Date.UTC(2027, 0, 1);
  const send = async (message: string, hour: number, key?: string) => {
    setTime(new Date(begun + hour * hourMs));
    const answer = await call('POST', '/quickstart/messages', { body: { message }, ...(key && { key }) });
    return [answer.status, answer.json.code, answer.headers['retry-after']].filter(Boolean).join(' ');
  };
  const row = (_: unknown, index: number) => `('${index}', 1, 'before', 'queued', ${begun + 1})`;
  await runSql(databaseUrl, `INSERT INTO message VALUES ${Array.from(Array(limits.messages - 3), row)}`);
  for (const [hour, message] of ['a', 'b', 'c'].entries()) expect(await send(message, hour)).toBe('202');
  const full = `429 rate_limited ${21 * 3600}`;
  expect([await send('d', 3), await send('d', 3)]).toEqual([full, full]);
  await store.accounts.addAccount('others');
  const { key } = await newKey({ account: 'others' });
  expect(await send('e', 3, key)).toBe('202');
  // Neither the clock nor the store is asked for so long.
  expect(await send('f', 24)).toMatch(/^429 /);
  vi.advanceTimersByTime(21 * hourMs);
  expect(await send('f', 24)).toBe('202');
  // Whoever adds one also deletes those that are too old.
  const kept = await textRows(databaseUrl, "SELECT message FROM message WHERE message <> 'before' ORDER BY message");
  expect(kept.map(({ message }) => message)).toEqual(['b', 'c', 'e', 'f']);
});
