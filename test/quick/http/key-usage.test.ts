/** Tests of what is kept in memory about API keys: their use. */
import { pino } from 'pino';
import { expect, onTestFinished, test, vi } from 'vitest';
import { createKeyUsage } from '../../../src/http/key-usage.ts';

test('the uses of many keys are written in transactions of 100, so that other writes do not wait long', async () => {
  const recordUses = vi.fn(async (_uses: unknown[]) => undefined);
  const accounts = { recordUses };
  const logger = pino({ level: 'silent' });
  const usage = createKeyUsage({ accounts: accounts as never, logger, now: () => new Date() });
  for (let id = 1; id <= 450; id++) usage.count({ reqId: 'test', key: id, status: 200 });
  await usage.close();
  expect(recordUses.mock.calls.map(([uses]) => uses.length)).toEqual([100, 100, 100, 100, 50]);
});

test('a server that stops while counts are written writes the rest, too', async () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
  onTestFinished(() => void vi.useRealTimers());
  const written: number[] = [];
  const recordUses = async (uses: unknown[]) => {
    await new Promise((resolve) => setTimeout(resolve, 20));
    // The first batch is lost at first.
    if (written.push(uses.length) === 1) throw new Error('lost');
  };
  const accounts = { recordUses } as never;
  const usage = createKeyUsage({ accounts, logger: pino({ level: 'silent' }), now: () => new Date() });
  for (let id = 1; id <= 201; id++) usage.count({ reqId: 'test', key: id, status: 200 });
  vi.advanceTimersByTime(60_000);
  await usage.close();
  expect(written).toEqual([100, 100, 1, 100]);
});
