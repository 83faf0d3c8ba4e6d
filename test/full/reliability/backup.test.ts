/** Tests online backups, restoring them, and commands that are killed. */
import fs from 'node:fs';
import path from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { expect, test, vi } from 'vitest';
import { checkStore } from '../../../src/store/sqlite/check.ts';
import { type Outcome, openClient, type Promises, sideBySide } from '../../support/client.ts';
import { change, commandFolder, namesIn, query } from '../../support/commands.ts';
import { firstAnswer } from '../../support/known-port.ts';
import { launchCli, type Process, runCli, startServer } from '../../support/process.ts';
import { seededRandom } from '../../support/random.ts';
import { type MadeStore, makeStore, missingFrom } from '../../support/store-file.ts';
import { injecting, needStrace } from '../../support/strace.ts';
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

/** What `check` says about the checksum of a backup, which must be sound. */
async function checksumOf(folder: string, name: string): Promise<string> {
  const { code, stdout, stderr } = await runCli(['check', name, '--json'], { folder });
  expect([code, stderr]).toEqual([0, '']);
  return JSON.parse(stdout).checksum;
}

test(
  '36 bytes overwritten anywhere in a backup: check finds it, and restore refuses it and leaves the store as it is',
  async () => {
    const { folder, at, run, store } = await commandFolder({ name: 'Rex', categoryId: 1n, status: 'sold' });
    fs.writeFileSync(at('pets.jsonl'), jsonLines(400));
    await run('import', 'pets.jsonl');
    for (const name of ['zoo', 'farm']) await run('account', 'add', name);
    await run('key', 'create', '--account', 'zoo', '--name', 'till');
    change(store, 'DELETE FROM pet WHERE id BETWEEN 100 AND 250');
    await run('backup', 'copy.db');
    const bytes = fs.readFileSync(at('copy.db'));
    const [{ size } = { size: 0 }] = query<{ size: number }>(
      at('copy.db'),
      'SELECT page_size AS size FROM pragma_page_size',
    );
    const pages = bytes.length / size;
    const before = fs.readFileSync(store);
    const random = seededRandom(seed);
    const sentence = 'copy.db does not match copy.db.sha256: one of the two has changed since the backup.';
    let places = 0;
    for (let page = 0; page < pages; page++) {
      for (let count = 0; count < tier(5, 200); count++) {
        const place = Math.min(page * size + Math.floor(random() * size), bytes.length - 36);
        const damaged = Buffer.from(bytes);
        // At least one bit of each byte changes.
        for (let at = place; at < place + 36; at++)
          damaged[at] = (damaged[at] as number) ^ (1 + Math.floor(random() * 255));
        fs.writeFileSync(at('copy.db'), damaged);
        const hint = `seed ${seed}, byte ${place}`;
        const check = await runCli(['check', 'copy.db'], { folder });
        expect([check.code, check.stderr], hint).toEqual([1, expect.stringContaining(sentence)]);
        const restore = await runCli(['restore', 'copy.db'], { folder });
        expect(restore, hint).toEqual({ code: 1, stdout: '', stderr: check.stderr });
        places += 1;
      }
    }
    expect(fs.readFileSync(store).equals(before)).toBe(true);
    fs.writeFileSync(at('copy.db'), bytes);
    expect(await checksumOf(folder, 'copy.db')).toBe('matches');
    figure(
      `36 bytes overwritten at ${places} places in all ${pages} pages of a backup: check and restore refused all ${places}`,
    );
  },
  patientMs,
);

test(
  'a killed backup --force leaves the old backup or the new one, complete, and never with the checksum of another',
  async () => {
    const { folder, env, file } = await makeStore();
    const run = (...args: string[]) => launchCli(args, { folder, env }).end();
    expect(await run('backup', 'copy.db')).toMatchObject({ code: 0 });
    const usualMs = await timeOf(run('backup', 'copy.db', '--force'));
    let added = 0;
    const backups = () => {
      change(file, `INSERT INTO pet (name, category_id, status) VALUES ('pet ${++added}', 1, 'sold')`);
      return launchCli(['backup', 'copy.db', '--force'], { folder, env });
    };
    const times = tier(6, 100);
    const killed = await killRandomly(backups, usualMs, async (count) => {
      expect((await checkStore(path.join(folder, 'copy.db'), true)).problems, `seed ${seed}`).toEqual([]);
      return count === times;
    });
    expect(await run('backup', 'copy.db', '--force')).toMatchObject({ code: 0 });
    expect(fs.readdirSync(folder).filter((name) => name.includes('.partial'))).toEqual([]);
    figure(`${killed} backups --force killed with kill -9 (seed ${seed}): each left a sound backup`);
  },
  patientMs,
);

/** Two stores with an animal each, and a backup of the old one that the new one's backup replaces. */
async function replacingBackup() {
  const [old, fresh] = await Promise.all([makeStore(), makeStore()]);
  for (const [{ file }, name] of [
    [old, 'old'],
    [fresh, 'new'],
  ] as const)
    change(file, `INSERT INTO pet (name, category_id, status) VALUES ('${name}', 1, 'sold')`);
  const copy = path.join(old.folder, 'copy.db');
  const backup = ({ env }: MadeStore, under: string[] = []) =>
    launchCli(['backup', 'copy.db', '--force'], { folder: old.folder, env, under });
  expect(await backup(old).end()).toMatchObject({ code: 0 });
  /** Starts the backup that replaces the first, and waits until it stands at this rename: 1 is that of the backup, 2 of its checksum. */
  const stopAt = async (rename: 1 | 2, seconds: number) => {
    const replacing = backup(fresh, injecting('rename', `delay_enter=${seconds}s:when=${rename}`));
    const { ino } = fs.statSync(copy);
    await vi.waitUntil(() => !fs.existsSync(`${copy}.sha256`) && (fs.statSync(copy).ino === ino) === (rename === 1), {
      timeout: 30_000,
      interval: 5,
    });
    return replacing;
  };
  return { old, copy, backup, stopAt };
}

test.for([
  [1, 'old'],
  [2, 'new'],
] as const)(
  'a backup --force that is killed before rename %i leaves the %s backup, without a checksum',
  { timeout: patientMs },
  async ([rename, name], context) => {
    needStrace(context);
    const { old, copy, backup, stopAt } = await replacingBackup();
    const replacing = await stopAt(rename, 4);
    expect((await replacing.end('SIGKILL')).code).toBe(null);
    expect(namesIn(copy)).toEqual([name]);
    expect(await checksumOf(old.folder, 'copy.db')).toBe('missing');
    expect(await launchCli(['restore', 'copy.db'], old).end()).toMatchObject({ code: 0 });
    expect(await backup(old).end()).toMatchObject({ code: 0 });
    expect(await checksumOf(old.folder, 'copy.db')).toBe('matches');
    expect(fs.readdirSync(old.folder).filter((entry) => entry.includes('.partial'))).toEqual([]);
  },
);

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

test(
  'an import that is killed repeatedly adds each line exactly once',
  async () => {
    const lines = tier(20_000, 200_000);
    const times = tier(4, 40);
    const { folder, file, env } = await makeStore();
    fs.writeFileSync(path.join(folder, 'pets.jsonl'), jsonLines(lines));
    const other = await makeStore();
    const usualMs = await timeOf(launchCli(['import', path.join(folder, 'pets.jsonl')], other).end());
    let added = 0;
    const imports = () => launchCli(['import', 'pets.jsonl'], { folder, env });
    const killed = await killRandomly(imports, usualMs, (count) => {
      expect(namesIn(file).length, `seed ${seed}`).toBeGreaterThanOrEqual(added);
      added = namesIn(file).length;
      return count === times || added === lines;
    });
    expect(await launchCli(['import', 'pets.jsonl'], { folder, env }).end()).toMatchObject({ code: 0 });
    expect(namesIn(file), `seed ${seed}`).toEqual(Array.from({ length: lines }, (_, index) => `line ${index + 1}`));
    figure(
      `an import of ${lines} lines killed with kill -9 ${killed} times (seed ${seed}), ${added} lines added by then: at the end each line is there once`,
    );
  },
  patientMs,
);
