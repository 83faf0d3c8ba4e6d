/** Tests of what is kept in memory about API keys: their last use, and the series of deprecated calls. */
import { pino } from 'pino';
import { expect, onTestFinished, test, vi } from 'vitest';
import type { ApiKey } from '../../../src/core/accounts.ts';
import { createKeyUsage } from '../../../src/http/key-usage.ts';
import { createMetrics } from '../../../src/http/metrics.ts';

test('deprecated calls are counted for the 1,000 keys that called last', async () => {
  const { deprecatedCall, registry } = createMetrics('test');
  for (let id = 1; id <= 1000; id++) deprecatedCall({ id, accountId: 7 } as ApiKey);
  for (const id of [1, 1001]) deprecatedCall({ id, accountId: 7 } as ApiKey);
  const text = await registry.metrics();
  const series = text.match(/^animal_store_deprecated_calls_total\{.*$/gm) ?? [];
  expect(series).toHaveLength(1000);
  for (const [key, calls] of [
    [1, 2],
    [3, 1],
    [1001, 1],
  ])
    expect(series).toContain(`animal_store_deprecated_calls_total{account="7",key="${key}"} ${calls}`);
});

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
