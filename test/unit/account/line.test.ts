/** Tests the line of those who wait for something expensive: a client that is gone leaves it at once. */
import { Socket } from 'node:net';
import { setImmediate as turn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { createLine } from '../../../src/account/line.ts';

/** A line of one, and `wait` for a client of a network with a connection of its own. */
function openLine() {
  const inTurn = createLine({ running: 1, waiting: 2, ofNetwork: 2 });
  const ran: string[] = [];
  return {
    ran,
    wait(name: string, network: string, until?: Promise<void>) {
      const socket = new Socket();
      const act = async () => {
        ran.push(name);
        await until;
      };
      const outcome = inTurn(network, act, socket).then(
        () => 'done',
        (error) => error.code,
      );
      return { socket, outcome };
    },
  };
}

test('a client that is gone leaves the line: its place is free, and the next ones keep theirs', async () => {
  const { ran, wait } = openLine();
  const gate = Promise.withResolvers<void>();
  const first = wait('first', 'a', gate.promise);
  const [gone, last] = [wait('gone', 'b'), wait('last', 'c')];
  expect(await wait('refused', 'd').outcome).toBe('service_unavailable');
  gone.socket.destroy();
  expect(await gone.outcome).toBe('service_unavailable');
  const next = wait('next', 'b');
  gate.resolve();
  for (const { outcome } of [first, last, next]) expect(await outcome).toBe('done');
  expect(ran).toEqual(['first', 'last', 'next']);
  // Nothing is left of what runs or waits, and no listener on a connection that stays.
  for (const { socket } of [first, last, next]) expect(socket.listenerCount('close')).toBe(0);
  for (let times = 0; times < 5; times++) {
    await turn();
    expect(await wait('again', 'a').outcome).toBe('done');
  }
});

test('a client that was gone before takes no place, and one that goes while it is served gives back one', async () => {
  const { ran, wait } = openLine();
  const gate = Promise.withResolvers<void>();
  const first = wait('first', 'a', gate.promise);
  first.socket.destroy();
  const second = wait('second', 'a');
  gate.resolve();
  expect([await first.outcome, await second.outcome]).toEqual(['done', 'done']);
  const before = createLine({ running: 1 });
  await expect(before('a', () => 'served', new Socket().destroy())).rejects.toThrow();
  expect(ran).toEqual(['first', 'second']);
});
