/** Tests repeated kill -9 during POSTs. */
import { expect, test } from 'vitest';
import { type Promises, sideBySide } from '../../support/client.ts';
import { namesIn } from '../../support/commands.ts';
import { makeStore, missingFrom, serve } from '../../support/store-file.ts';
import { figure, tier } from '../../support/tier.ts';

const cycles = tier(25, 200);
const connections = 32;
const acknowledgedPerCycle = 420;

test('kill -9 loses no acknowledged pet, reuses no id, and a retry creates no duplicate', async () => {
  const made = await makeStore();
  const promises: Promises = new Map();
  const startsMs: number[] = [];
  /** The names, which are also Idempotency-Keys, whose outcome is unknown. */
  let unknown: string[] = [];

  async function restart() {
    const begun = performance.now();
    const served = await serve(made, connections, {}, promises);
    startsMs.push(performance.now() - begun);
    const retries = await Promise.all(unknown.map((name) => served.add(name, name)));
    expect(retries.filter(({ status }) => status !== 201)).toEqual([]);
    unknown = [];
    return served;
  }

  for (let cycle = 1; cycle <= cycles; cycle++) {
    const { server, add } = await restart();
    const enough = promises.size + acknowledgedPerCycle + Math.floor(Math.random() * connections);
    let sent = 0;
    await sideBySide(connections, async () => {
      for (;;) {
        const name = `${cycle}-${++sent}`;
        const isSafe = sent % 2 === 0;
        const { status } = await add(name, isSafe ? name : undefined);
        if (promises.size >= enough) void server.end('SIGKILL');
        if (status === 201) continue;
        expect(status).toBe('cut');
        if (isSafe) unknown.push(name);
        return;
      }
    });
    expect(await server.end()).toMatchObject({ code: null });
  }
  await (await restart()).server.end('SIGTERM');

  const names = namesIn(made.file);
  const found = {
    lost: missingFrom(made.file, promises).length,
    duplicates: names.length - new Set(names).size,
    reused: promises.size - new Set(promises.values()).size,
  };
  figure('kill -9', { acknowledged: promises.size, slowestStartMs: Math.max(...startsMs.slice(1)) });
  expect(promises.size).toBeGreaterThanOrEqual(tier(10_000, 80_000));
  expect(found).toEqual({ lost: 0, duplicates: 0, reused: 0 });
});
