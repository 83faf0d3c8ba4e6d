/** Tests that the alerts fire at real outages, and that alerts and dashboard use only metrics that the process exposes. */
import { spawnSync } from 'node:child_process';
import { chownSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import postgres from 'postgres';
import { describe, expect, onTestFinished, test } from 'vitest';
import { parse } from 'yaml';
import { temporaryFolder } from '../../support/app.ts';
import { type Client, openClient } from '../../support/client.ts';
import { startOwn } from '../../support/own-postgres.ts';
import { dataFolder, missingPostgres, startPair } from '../../support/postgres.ts';
import { type Server, startServer } from '../../support/process.ts';
import { projectFolder } from '../../support/project.ts';
import { createRecorder, type Recorder, spans } from '../../support/recorded-outage.ts';
import { mountSmallDisk, noDisk } from '../../support/small-disk.ts';
import { figure, patientMs } from '../../support/tier.ts';

interface Rule {
  alert?: string;
  record?: string;
  expr: string;
}

interface RuleTest {
  alert_rule_test: { alertname: string; exp_alerts: { exp_labels: Record<string, string> }[] }[];
}

const read = (file: string) => readFileSync(`${projectFolder}${file}`, 'utf8');
const rulesFile = `${projectFolder}deploy/prometheus/alerts.yml`;
const { groups } = parse(read('deploy/prometheus/alerts.yml')) as { groups: { rules: Rule[] }[] };
const rules = groups.flatMap((group) => group.rules);
const alerts = rules.flatMap(({ alert, expr }) => (alert === undefined ? [] : [{ alert, expr }]));
const dashboard = JSON.parse(read('deploy/grafana/dashboard.json')) as {
  panels: { title: string; targets: { expr: string }[] }[];
};

/** Metrics of the server and of prom-client in an expression. Recorded ratios come from other rules. */
const namesIn = (expr: string) =>
  [...expr.matchAll(/(?<![\w:])(?:http|animal_store|nodejs|process)_[a-z0-9_]+/g)].map(([name]) => name);

/** Metrics of Prometheus itself, and of the exporters of Kubernetes, probes and PostgreSQL. */
const ofOthers = /\b(?:up|kube_cronjob_\w+|probe_success|probe_ssl_earliest_cert_expiry|pg_stat_archiver_\w+)\b/;

const asked = [
  ...rules.map(({ alert, record, expr }) => [alert ?? record, expr] as const),
  ...dashboard.panels.flatMap(({ title, targets }) => targets.map(({ expr }) => [title, expr] as const)),
];

/** Exposed only by a server on PostgreSQL. */
const ofPostgres = /^animal_store_database_/;

const noPromtool = spawnSync('promtool', ['--version']).error && 'promtool (Debian: prometheus) is not installed';

test('alerts and dashboard use only metrics that the process exposes', async () => {
  const server = await startServer();
  // A series with labels appears only with its first value.
  const key = await server.firstKey();
  await server.call(key, 'GET', '/v1/pets/1');
  const text = await (await fetch(`${server.opsUrl()}/metrics`)).text();
  const exposed = new Set(text.split('\n').map((line) => line.replace(/^# TYPE (\S+) .*/, '$1').replace(/[{ ].*/, '')));
  expect(asked.length).toBeGreaterThan(25);
  for (const [where, expr] of asked) {
    expect(namesIn(expr).length + Number(ofOthers.test(expr)), where).toBeGreaterThan(0);
    for (const name of namesIn(expr))
      if (!ofPostgres.test(name)) expect([...exposed], `${where}: ${name}`).toContain(name);
  }
});

test("the command of docs/operations.md makes a PrometheusRule of the alert rules, for Prometheus' operator", () => {
  const text = readFileSync(`${projectFolder}docs/operations.md`, 'utf8');
  const [command = ''] = /^ {2}\{ printf .+?(?=^ {2}```$)/ms.exec(text) ?? [];
  const made = spawnSync('bash', ['-c', command.replace(/\| kubectl .*/, '')], {
    cwd: projectFolder,
    encoding: 'utf8',
  });
  expect(parse(made.stdout)).toEqual({
    apiVersion: 'monitoring.coreos.com/v1',
    kind: 'PrometheusRule',
    metadata: { name: 'animal-store' },
    spec: parse(readFileSync(`${projectFolder}deploy/prometheus/alerts.yml`, 'utf8')),
  });
});

test('every alert is explained in docs/operations.md', () => {
  const operations = read('docs/operations.md');
  for (const { alert } of alerts) expect(operations).toContain(`| \`${alert}\` |`);
});

test(
  'promtool accepts the rules, and they fire when they should',
  ({ skip }) => {
    if (noPromtool) skip(noPromtool);
    const folder = `${projectFolder}deploy/prometheus`;
    for (const args of [
      ['check', 'rules', 'alerts.yml'],
      ['test', 'rules', 'alerts.test.yml'],
    ]) {
      const { status, stdout, stderr } = spawnSync('promtool', args, { cwd: folder, encoding: 'utf8' });
      expect(status, stdout + stderr).toBe(0);
    }
  },
  patientMs,
);

test("promtool's tests expect of every alert the labels by which notifications are grouped", () => {
  // promtool compares all labels with these, so a rule that drops one of them fails the test above.
  const { tests } = parse(read('deploy/prometheus/alerts.test.yml')) as { tests: RuleTest[] };
  const cases = tests.flatMap(({ alert_rule_test }) => alert_rule_test);
  const [, group] = /Group them by (.*?) in\s+Alertmanager/.exec(read('docs/operations.md')) ?? [];
  expect(group).toBe('`job` and `namespace`');
  for (const { alert } of alerts) {
    const firing = cases.flatMap(({ alertname, exp_alerts }) => (alertname === alert ? exp_alerts : []));
    expect(firing.length, alert).toBeGreaterThan(0);
    for (const { exp_labels } of firing)
      expect(exp_labels, alert).toMatchObject({ job: 'animal-store', namespace: expect.any(String) });
  }
});

test('promtool accepts the scrape configuration, except how it finds the pods; the alerts name its jobs', ({
  skip,
}) => {
  if (noPromtool) skip(noPromtool);
  // Debian's Prometheus is built without this discovery.
  const discovery = /kubernetes_sd_configs:\n *- role: pod\n/;
  const text = read('deploy/prometheus/prometheus.yml');
  expect(text).toMatch(discovery);
  const file = path.join(temporaryFolder(), 'prometheus.yml');
  writeFileSync(
    file,
    text.replace(discovery, 'static_configs: [{ targets: [a] }]\n').replace('- alerts.yml', `- ${rulesFile}`),
  );
  const { status, stdout, stderr } = spawnSync('promtool', ['check', 'config', file], { encoding: 'utf8' });
  expect(status, stdout + stderr).toBe(0);
  const jobs = (parse(text) as { scrape_configs: { job_name: string }[] }).scrape_configs.map(
    ({ job_name }) => job_name,
  );
  expect(new Set(read('deploy/prometheus/alerts.yml').match(/(?<=\bjob=~?")[^"]*/g))).toEqual(new Set(jobs));
});

/** Alerts on speed, which depends on what else the machine does. */
const onSpeed = ['AnimalStoreSlow'];

const metrics = [...new Set(rules.flatMap(({ expr }) => namesIn(expr)))];
const record = (opsUrl: string) => createRecorder(opsUrl, metrics, rulesFile);

/** The traffic of one recorded minute: two creates, and a hundred reads for each. */
async function minuteOf(client: Client, recorder: Recorder, reads = 200): Promise<void> {
  await Promise.all(Array.from({ length: reads }, () => client.get('/v1/pets?limit=5')));
  await Promise.all(['Tabby', 'Rex'].map((name) => client.add(name)));
  await recorder.scrape();
}

/** Prints which alerts fire, in recorded minutes after the outage began, and returns alert → the first such minute. */
function report(outage: string, recorder: Recorder, begin: number, end = recorder.count()): Record<string, number> {
  const firing = recorder.firing().map((names) => names.filter((name) => !onSpeed.includes(name)));
  const found = Object.entries(spans(firing.slice(0, end), begin));
  const after = Object.fromEntries(found.map(([alert, [first]]) => [alert, first - begin]));
  figure(`${outage}: ${JSON.stringify(after)} recorded minutes after the beginning`);
  return after;
}

/** Fills the file system of `folder` to the last byte; returns the function that makes room again. */
function fillDisk(folder: string): () => void {
  const filler = path.join(folder, 'filler');
  for (let size = 2 ** 20; size >= 1; size /= 2) {
    try {
      for (;;) writeFileSync(filler, Buffer.alloc(size), { flag: 'a' });
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error;
    }
  }
  return () => rmSync(filler);
}

describe.skipIf(noPromtool)('the metrics of a real server, with each scrape as one minute,', () => {
  test(
    'raise no alert while it is healthy; raise alerts when its disk is full, it is killed, and nobody scrapes it',
    async ({ skip }) => {
      const folder = temporaryFolder();
      const data = path.join(folder, 'data');
      if (!mountSmallDisk(data, 24 * 1024)) skip(noDisk);
      const server = await startServer({ folder });
      const client = openClient(server.url, await server.firstKey(), 16);
      const recorder = record(server.opsUrl());
      const minutes = async (count: number) => {
        for (let minute = 0; minute < count; minute++) await minuteOf(client, recorder);
        return recorder.count();
      };

      const fullAt = await minutes(70);
      const makeRoom = fillDisk(data);
      expect((await client.add('Felix')).status).toBe(503);
      const roomAt = await minutes(20);
      expect((await client.get('/v1/pets')).status).toBe(200);
      expect((await fetch(`${server.opsUrl()}/readyz`)).status).toBe(200);
      makeRoom();
      const killedAt = await minutes(40);
      await server.end('SIGKILL');
      for (let minute = 0; minute < 4; minute++) await recorder.scrape();
      const vanishedAt = recorder.count();
      for (let minute = 0; minute < 4; minute++) recorder.scrapeNothing();

      expect(report('healthy', recorder, 0, fullAt)).toEqual({});
      const full = report('disk full, 100 reads to 1 create', recorder, fullAt, roomAt);
      expect(Object.keys(full).sort()).toEqual(['AnimalStoreDiskFills', 'AnimalStoreFails', 'AnimalStoreWritesFail']);
      // A page within ten minutes.
      expect(full).toMatchObject({ AnimalStoreFails: expect.toSatisfy((minute) => minute <= 10) });
      expect(report('half an hour later', recorder, killedAt - 5, killedAt)).toEqual({});
      expect(Object.keys(report('killed', recorder, killedAt, vanishedAt))).toEqual(['AnimalStoreDown']);
      expect(Object.keys(report('no target', recorder, vanishedAt))).toEqual(['AnimalStoreDown']);
    },
    patientMs,
  );

  test.skipIf(missingPostgres)(
    'raise an alert when the synchronous standby is lost, while reads succeed',
    async () => {
      const { primary, standby, end } = await startPair();
      onTestFinished(end);
      const server: Server = await startServer({ env: { DATABASE_URL: primary.url('postgres') } });
      const client = openClient(server.url, await server.firstKey(), 16);
      const recorder = record(server.opsUrl());
      for (let minute = 0; minute < 20; minute++) await minuteOf(client, recorder, 20);
      const text = await (await fetch(`${server.opsUrl()}/metrics`)).text();
      const names = asked.flatMap(([, expr]) => namesIn(expr)).filter((name) => ofPostgres.test(name));
      expect(names).not.toEqual([]);
      for (const name of names) expect(text).toContain(`# TYPE ${name.replace(/_bucket$/, '')} `);
      const lostAt = recorder.count();
      await standby.kill();
      const creates: Promise<{ status: number | 'cut' }>[] = [];
      const reads: Promise<{ status: number | 'cut' }>[] = [];
      for (let minute = 0; minute < 20; minute++) {
        creates.push(client.add('Felix'));
        for (let count = 0; count < 10; count++) reads.push(client.get('/v1/pets?limit=5'));
        await sleep(400);
        await recorder.scrape();
      }
      expect(new Set((await Promise.all(reads)).map(({ status }) => status))).toEqual(new Set([200]));
      expect(new Set((await Promise.all(creates)).map(({ status }) => status))).toEqual(new Set([503]));
      expect(report('healthy', recorder, 0, lostAt)).toEqual({});
      const lost = report('standby lost', recorder, lostAt);
      expect(Object.keys(lost).sort()).toEqual(['AnimalStoreFails', 'AnimalStoreWritesFail']);
    },
    patientMs,
  );

  test.skipIf(missingPostgres)(
    'raise alerts when the disk of PostgreSQL is full, and none when there is room again',
    async ({ skip }) => {
      const folder = dataFolder();
      onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
      const disk = path.join(folder, 'disk');
      if (!mountSmallDisk(disk, 24 * 1024)) skip(noDisk);
      const { uid, gid } = statSync(folder);
      chownSync(disk, uid, gid);
      const { url } = await startOwn([], () => undefined);
      const sql = postgres(url('postgres'), { max: 1, onnotice: () => undefined });
      onTestFinished(() => sql.end());
      // The write-ahead log has room elsewhere: without it, PostgreSQL would stop.
      await sql.unsafe(`CREATE TABLESPACE small LOCATION '${disk}'`);
      await sql.unsafe('CREATE DATABASE animals TABLESPACE small');
      const server = await startServer({ env: { DATABASE_URL: url('animals') } });
      const client = openClient(server.url, await server.firstKey(), 16);
      const recorder = record(server.opsUrl());
      const minutes = async (count: number) => {
        for (let minute = 0; minute < count; minute++) await minuteOf(client, recorder, 20);
        return recorder.count();
      };

      const fullAt = await minutes(20);
      const makeRoom = fillDisk(disk);
      // Until the last page of the table, or of an index, is full.
      const fill = async () => (await client.add('Felix'.repeat(40))).status;
      await expect.poll(fill, { timeout: 20_000, interval: 0 }).toBe(503);
      const roomAt = await minutes(20);
      expect((await client.get('/v1/pets')).status).toBe(200);
      makeRoom();
      const endAt = await minutes(40);
      expect(report('healthy', recorder, 0, fullAt)).toEqual({});
      expect(Object.keys(report('disk of PostgreSQL full', recorder, fullAt, roomAt)).sort()).toEqual([
        'AnimalStoreFails',
        'AnimalStoreWritesFail',
      ]);
      expect(report('room again', recorder, endAt - 5)).toEqual({});
    },
    patientMs,
  );
});
