import { appendFileSync, rmSync, statfsSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { temporaryFolder } from '../../support/app.ts';
import { type Outcome, openClient, type Promises, sideBySide } from '../../support/client.ts';
import { startServer } from '../../support/process.ts';
import { mountSmallDisk, noDisk } from '../../support/small-disk.ts';
import { makeStore, missingFrom } from '../../support/store-file.ts';
import { figure, patientMs } from '../../support/tier.ts';

/** Fills the disk to the last block. */
function fill(filler: string): void {
  for (let bytes = 64 * 1024; bytes >= 1; ) {
    try {
      appendFileSync(filler, Buffer.alloc(bytes));
    } catch {
      bytes = Math.floor(bytes / 4);
    }
  }
}

const unavailable = { status: 503, json: { code: 'service_unavailable', message: expect.any(String), status: 503 } };

test(
  'a full disk: writes get 503, reads continue, and writes resume without a restart when there is room',
  async ({ skip }) => {
    const folder = path.join(temporaryFolder(), 'disk');
    if (!mountSmallDisk(folder, 8 * 1024)) return skip(noDisk);
    const filler = path.join(folder, 'filler');
    const { file, key, env } = await makeStore(folder);
    const server = await startServer({ env });
    const promises: Promises = new Map();
    const { add, get } = openClient(server.url, key, 20, promises);
    const outcomes: Outcome[] = [];

    /** Adds pets, `atOnce` at a time, until `enough` accepts a response. */
    async function addUntil(enough: (last: Outcome) => boolean, atOnce = 20): Promise<void> {
      let over = false;
      await sideBySide(atOnce, async () => {
        while (!over) {
          const last = await add(`animal ${outcomes.length} ${Math.random()}`);
          outcomes.push(last);
          over ||= enough(last) || outcomes.length > 20_000;
        }
      });
    }

    for (let round = 1; round <= 3; round++) {
      const before = promises.size;
      await addUntil(() => promises.size >= before + 700);
      fill(filler);
      expect(statfsSync(folder).bavail).toBe(0);
      await addUntil(({ status }) => status !== 201);
      // Small commits may still fit after a large one failed.
      for (let inARow = 0; inARow < 20; ) {
        await addUntil(() => true, 1);
        inARow = outcomes.at(-1)?.status === 201 ? 0 : inARow + 1;
      }
      expect((await get('/v1/pets?limit=100')).json).toHaveLength(100);
      expect((await get('/v1/pets/1')).status).toBe(200);
      rmSync(filler);
      expect((await add(`room again ${round}`)).status).toBe(201);
    }
    expect(await server.end('SIGTERM')).toMatchObject({ code: 0 });
    const refused = outcomes.filter(({ status }) => status !== 201);
    for (const outcome of refused) expect(outcome).toMatchObject(unavailable);
    figure(`full disk: filled 3 times, ${promises.size} acknowledged, 0 lost, ${refused.length} responses 503`);
    expect(missingFrom(file, promises)).toEqual([]);
  },
  patientMs,
);
