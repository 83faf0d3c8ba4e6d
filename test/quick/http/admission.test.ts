/** Tests which requests are admitted, with turns of the event loop that are kept busy. */
import { expect, test } from 'vitest';
import { createAdmission } from '../../../src/http/connection/admission.ts';

function work(ms: number): void {
  for (const end = performance.now() + ms; performance.now() < end; );
}

const nextTurn = () => new Promise((resolve) => setImmediate(resolve));

/** Turns of `requests` requests of `ms` milliseconds each, from `holderOf` in turn. Returns who was admitted in the last turn. */
async function serve(turns: number, requests: number, ms: number, holderOf: (at: number) => number | undefined) {
  const admission = createAdmission();
  let admitted: (number | undefined)[] = [];
  for (let turn = 0; turn < turns; turn++) {
    admitted = [];
    for (let at = 0; at < requests; at++) {
      const holder = holderOf(at);
      const all = admission.admitsAll();
      if (!all && !admission.admits(holder)) continue;
      if (!all) admission.count(holder);
      admitted.push(holder);
      work(ms);
    }
    await nextTurn();
  }
  return admitted;
}

test('turns of 40 ms refuse nothing', async () => {
  expect(await serve(12, 10, 4, () => 1)).toHaveLength(10);
});

test('one pause of half a second refuses nothing', async () => {
  const admission = createAdmission();
  expect(admission.admitsAll()).toBe(true);
  work(500);
  await nextTurn();
  expect(admission.admitsAll()).toBe(true);
});

test('when turns of 360 ms follow each other, what one turn finds after its budget is refused', async () => {
  const admitted = await serve(5, 60, 6, () => 1);
  expect(admitted.length).toBeGreaterThan(0);
  expect(admitted.length).toBeLessThan(55);
});

test('requests without a valid key are refused first', async () => {
  const admitted = await serve(5, 60, 6, (at) => (at % 2 === 0 ? 1 : undefined));
  const strangers = admitted.filter((holder) => holder === undefined).length;
  expect(strangers).toBeLessThan((admitted.length - strangers) / 2);
});

test('an account with a few requests at the end of a turn is served, however many another one has before it', async () => {
  const admitted = await serve(5, 63, 6, (at) => (at < 60 ? 1 : 2));
  expect(admitted.filter((holder) => holder === 2)).toHaveLength(3);
  expect(admitted.filter((holder) => holder === 1).length).toBeLessThan(55);
});

test('from the 512th request of a turn on, a connection is not read from until the next turn', async () => {
  const admission = createAdmission();
  const calls: string[] = [];
  const connection = (name: string, reading: boolean) => ({
    _handle: {
      reading,
      readStop: () => calls.push(`${name} stops`),
      readStart: () => calls.push(`${name} starts`),
    },
  });
  admission.admitsAll();
  for (let request = 1; request < 512; request++) admission.rest(connection('early', true));
  admission.rest(connection('late', true));
  admission.rest(connection('paused', false));
  admission.rest({ _handle: null });
  expect(calls).toEqual(['late stops', 'paused stops']);
  await nextTurn();
  expect(calls).toEqual(['late stops', 'paused stops', 'late starts']);
});
