/** Tests online backups, restoring them, and commands that are killed. */
import fs from 'node:fs';
import path from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { expect, test, vi } from 'vitest';
import { type Outcome, openClient, type Promises, sideBySide } from '../../support/client.ts';
import { namesIn } from '../../support/commands.ts';
import { firstAnswer } from '../../support/known-port.ts';
import { launchCli, type Process, startServer } from '../../support/process.ts';
import { seededRandom } from '../../support/random.ts';
import { makeStore, missingFrom } from '../../support/store-file.ts';
import { figure, patientMs, tier } from '../../support/tier.ts';

const connections = 8;

const jsonLines = (count: number) =>
  Array.from({ length: count }, (_, index) => `{"name":"line ${index + 1}","categoryId":1}\n`).join('');

/** Imports `animals` pets into a store, and starts a server whose clients add more until it is killed. */
async function startUnderLoad(animals: number) {
  const made = await makeStore();
  fs.writeFileSync(path.join(made.folder, 'pets.jsonl'), jsonLines(animals));
  const run = (...args: string[]) => launchCli(args, made).end();
  expect(await run('import', 'pets.jsonl')).toMatchObject({ code: 0 });

  const server = await startServer({ env: made.env });
  const promises: Promises = new Map();
  const client = openClient(server.url, made.key, connections, promises);
  const statuses = new Set<number | 'cut'>();
  let sent = 0;
  const load = sideBySide(connections, async () => {
    while (!statuses.has('cut')) statuses.add((await client.add(`animal-${++sent}`)).status);
  });
  const kill = async () => {
    await server.end('SIGKILL');
    await load;
    // On a busy machine the server may respond 503, but the store itself must never fail.
    expect([...statuses].filter((status) => status !== 201 && status !== 503)).toEqual(['cut']);
    expect(server.stdout()).not.toContain('SQLITE_');
  };
  /** Waits until `more` further pets are acknowledged. */
  const acknowledge = (more: number) => {
    const enough = promises.size + more;
    return vi.waitUntil(() => promises.size >= enough, { timeout: 60_000, interval: 5 });
  };
  return { ...made, promises, run, kill, acknowledge };
}

/** The outcome; undefined for a 503, with which a server on a busy machine may respond. */
async function notShed(call: Promise<Outcome>): Promise<Outcome | undefined> {
  const outcome = await call;
  return outcome.status === 503 ? undefined : outcome;
}

test(
  'a backup under write load is sound, and holds every pet acknowledged before it began',
  async () => {
    const backups = tier(2, 20);
    const { folder, promises, run, kill, acknowledge } = await startUnderLoad(tier(5000, 200_000));
    let acknowledgedMeanwhile = 0;
    for (let count = 1; count <= backups; count++) {
      await acknowledge(100);
      const before = new Map(promises);
      expect(await run('backup', `${count}.db`)).toMatchObject({ code: 0, stderr: '' });
      acknowledgedMeanwhile += promises.size - before.size;
      expect(missingFrom(path.join(folder, `${count}.db`), before)).toEqual([]);
    }
    const acknowledged = promises.size;
    await kill();
    expect(acknowledgedMeanwhile).toBeGreaterThan(0);
    figure(
      `${backups} online backups under write load (${acknowledged} pets acknowledged, ${acknowledgedMeanwhile} of them during a backup): 0 unsound, 0 pets missing`,
    );
  },
  patientMs,
);

test(
  'restore drill (backup under load, kill -9, restore, start): every pet from before the backup is there, and no id is reused',
  async () => {
    const { env, key, file, folder, promises, run, kill, acknowledge } = await startUnderLoad(1000);
    await acknowledge(200);
    const before = new Map(promises);
    expect(await run('backup', 'last.db')).toMatchObject({ code: 0 });
    await acknowledge(200);
    expect((await run('restore', 'last.db')).stderr).toMatch(/is in use: stop the server first/);
    await kill();
    const highest = Math.max(...promises.values());

    const begun = performance.now();
    expect(await run('restore', 'last.db')).toMatchObject({ code: 0, stderr: '' });
    const server = await startServer({ env });
    const client = openClient(server.url, key, 1);
    await firstAnswer(server, client);
    const { status, json } = await vi.waitUntil(() => notShed(client.add('after the drill')), { timeout: 30_000 });
    const backMs = Math.round(performance.now() - begun);
    expect(status).toBe(201);
    expect(json.id).toBeGreaterThan(highest);
    for (const [name, id] of before) {
      const { json: pet } = await vi.waitUntil(() => notShed(client.get(`/v1/pets/${id}`)), { timeout: 30_000 });
      expect(pet.name).toBe(name);
    }
    await server.end('SIGTERM');
    expect(missingFrom(file, before)).toEqual([]);
    const [kept = ''] = fs.readdirSync(folder).filter((name) => name.endsWith('.before-restore'));
    expect(missingFrom(path.join(folder, kept), promises)).toEqual([]);
    figure(
      `restore drill: ${before.size} of ${before.size} pets acknowledged before the backup are restored, first 201 after ${backMs} ms; all ${promises.size} are in the replaced store, which was kept`,
    );
  },
  patientMs,
);

const seed = Date.now() % 1_000_000;

/** Runs a command repeatedly and kills it at a random moment, until `enough` returns true. Returns the number of killed runs. */
async function killRandomly(
  command: () => Process,
  usualMs: number,
  enough: (killed: number) => boolean | Promise<boolean>,
): Promise<number> {
  const random = seededRandom(seed);
  let killed = 0;
  for (let longestMs = usualMs; !(await enough(killed)); ) {
    const { end } = command();
    await setTimeout(random() * longestMs);
    if ((await end('SIGKILL')).code === null) killed += 1;
    // The command ended before it was killed: it is faster than it was.
    else longestMs *= 0.8;
  }
  return killed;
}

/** Duration in milliseconds of a command, which must succeed. */
async function timeOf(command: Promise<{ code: number | null }>): Promise<number> {
  const begun = performance.now();
  expect(await command).toMatchObject({ code: 0 });
  return performance.now() - begun;
}

test(
  'a killed restore leaves either the old store or the new one, complete',
  async () => {
    const { folder, file, env } = await makeStore();
    const run = (...args: string[]) => launchCli(args, { folder, env }).end();
    fs.writeFileSync(path.join(folder, 'old.jsonl'), jsonLines(5));
    fs.writeFileSync(path.join(folder, 'new.jsonl'), jsonLines(5000));
    await run('import', 'old.jsonl');
    await run('backup', 'old.db');
    await run('import', 'new.jsonl');
    await run('backup', 'new.db');
    const usualMs = await timeOf(run('restore', 'old.db'));
    const seen = new Set<number>();
    const times = tier(6, 100);
    const restores = () => launchCli(['restore', Math.random() < 0.5 ? 'old.db' : 'new.db'], { folder, env });
    const killed = await killRandomly(restores, usualMs, (count) => {
      expect(missingFrom(file, new Map()), `seed ${seed}`).toEqual([]);
      seen.add(namesIn(file).length);
      return count === times;
    });
    expect([...seen].filter((count) => count !== 5 && count !== 5005)).toEqual([]);
    expect(await run('restore', 'new.db')).toMatchObject({ code: 0, stderr: '' });
    expect(namesIn(file)).toHaveLength(5005);
    expect(fs.readdirSync(folder).filter((name) => /partial/.test(name))).toEqual([]);
    figure(`${killed} restores killed with kill -9 (seed ${seed}): each left the old store or the new one, complete`);
  },
  patientMs,
);
