/** Tests repeated kill -9 during POSTs. */
import { expect, test } from 'vitest';
import { type Client, openClient, type Promises, sideBySide } from '../../support/client.ts';
import { findPort, firstAnswer } from '../../support/known-port.ts';
import { links } from '../../support/links.ts';
import { launchServer, type Process } from '../../support/process.ts';
import { type MadeStore, makeStore } from '../../support/store-file.ts';
import { figure, patientMs, tier } from '../../support/tier.ts';

const cycles = tier(25, 200);
const connections = 32;
const acknowledgedPerCycle = 420;

interface Ready {
  server: Process;
  client: Client;
  /** From the start of the process to its first response. */
  startMs: number;
}

async function start({ env, key }: MadeStore, port: number, promises: Promises): Promise<Ready> {
  const client = openClient(`http://127.0.0.1:${port}`, key, connections, promises);
  const begun = performance.now();
  const server = launchServer({ env: { ...env, PORT: String(port) } });
  await firstAnswer(server, client);
  return { server, client, startMs: performance.now() - begun };
}

/** Adds pets until the server is killed. Every other one uses its name as Idempotency-Key; returns those of them whose outcome is unknown. */
async function addUntilKilled({ server, client }: Ready, cycle: number): Promise<string[]> {
  const unknown: string[] = [];
  const last = acknowledgedPerCycle + Math.floor(Math.random() * connections);
  let sent = 0;
  let acknowledged = 0;
  await sideBySide(connections, async () => {
    for (;;) {
      const name = `${cycle}-${++sent}`;
      const isSafe = sent % 2 === 0;
      const { status } = await client.add(name, isSafe ? name : undefined);
      if (status === 201 && ++acknowledged === last) void server.end('SIGKILL');
      if (status === 201) continue;
      expect(status).toBe('cut');
      if (isSafe) unknown.push(name);
      return;
    }
  });
  expect(await server.end()).toMatchObject({ code: null });
  return unknown;
}

/** Lists all pets in the store. */
async function listAll({ get }: Client): Promise<{ id: number; name: string }[]> {
  const all: { id: number; name: string }[] = [];
  for (let page: string | undefined = '/v1/pets?limit=100'; page !== undefined; ) {
    const { json, headers } = await get(page);
    all.push(...json);
    page = links(headers.link).next;
  }
  return all;
}

test(
  'kill -9 loses no acknowledged pet, reuses no id, and a retry creates no duplicate',
  async () => {
    const store = await makeStore();
    const port = await findPort();
    const promises: Promises = new Map();
    const startsMs: number[] = [];
    let unknown: string[] = [];
    let retried = 0;
    let replayed = 0;

    async function restart(): Promise<Ready> {
      const ready = await start(store, port, promises);
      startsMs.push(ready.startMs);
      const retries = await Promise.all(unknown.map((name) => ready.client.add(name, name)));
      expect(retries.filter(({ status }) => status !== 201)).toEqual([]);
      retried += retries.length;
      replayed += retries.filter(({ headers }) => headers['idempotent-replayed'] === 'true').length;
      return ready;
    }

    for (let cycle = 1; cycle <= cycles; cycle++) {
      unknown = await addUntilKilled(await restart(), cycle);
    }
    const { client } = await restart();
    const kept = await listAll(client);

    const keptIds = new Map(kept.map(({ id, name }) => [name, id]));
    const lost = [...promises].filter(([name, id]) => keptIds.get(name) !== id);
    const duplicates = kept.length - keptIds.size;
    const reused = promises.size - new Set(promises.values()).size;
    const slowest = Math.max(...startsMs.slice(1));
    figure(
      `kill -9: ${cycles} cycles, ${promises.size} acknowledged, ${lost.length} lost, ${duplicates} duplicates, ${reused} ids reused; ` +
        `${retried} with unknown outcome retried, ${replayed} of them had been added; first response after ${Math.round(slowest)} ms at most`,
    );
    expect(promises.size).toBeGreaterThanOrEqual(tier(10_000, 80_000));
    expect({ lost, duplicates, reused }).toEqual({ lost: [], duplicates: 0, reused: 0 });
  },
  patientMs,
);
