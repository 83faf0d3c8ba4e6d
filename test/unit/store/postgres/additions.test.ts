/** Tests of how additions are collected into batches. */
import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, onTestFinished, test, vi } from 'vitest';
import { collectAdditions } from '../../../../src/store/postgres/additions.ts';

test('one batch is under way at a time, and what arrives meanwhile shares the next', async () => {
  const sent: number[][] = [];
  const gates = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const { add, waiting, close } = collectAdditions<number, number>({
    nameOf: () => undefined,
    async send(numbers) {
      await gates[sent.push(numbers) - 1]?.promise;
      if (numbers.includes(2)) throw new Error('refused');
      return numbers.map((number) => number * 10);
    },
  });
  const first = [add(0), add(1)];
  await nextTurn();
  const second = Promise.allSettled([add(2), add(3)]);
  await nextTurn();
  await nextTurn();
  expect([sent, waiting()]).toEqual([[[0, 1]], 2]);
  const closed = close();
  gates[0]?.resolve();
  expect(await Promise.all(first)).toEqual([0, 10]);
  gates[1]?.resolve();
  expect(await second).toMatchObject([{ reason: new Error('refused') }, { reason: new Error('refused') }]);
  await closed;
  expect([sent, waiting()]).toEqual([
    [
      [0, 1],
      [2, 3],
    ],
    0,
  ]);
  expect(await add(4)).toBe(40);
});

test('those of one name go one after the other, keep no others out, and fail after half their time', async () => {
  vi.useFakeTimers({ toFake: ['performance'] });
  onTestFinished(() => void vi.useRealTimers());
  const sent: string[][] = [];
  const { add } = collectAdditions<string, string>({
    nameOf: (text) => /^same/.exec(text)?.[0],
    async send(texts, withinMs) {
      sent.push(texts);
      expect(withinMs).toBeGreaterThan(1000);
      vi.advanceTimersByTime(100);
      return texts;
    },
  });
  const same = Array.from(Array(200), (_, at) => `same ${at}`);
  const answers = await Promise.allSettled([...same, 'a', 'b'].map(add));
  const served = answers.flatMap((answer) => (answer.status === 'fulfilled' ? [answer.value] : []));
  expect(sent[0]).toEqual(['same 0', 'a', 'b']);
  expect(served).toEqual([...same.slice(0, sent.length), 'a', 'b']);
  // Until 2300 / 2 ms, and the one that is then the first.
  expect(sent).toHaveLength(13);
  for (const answer of answers)
    if (answer.status === 'rejected') expect(answer.reason).toMatchObject({ code: 'service_unavailable' });
});
