/** Tests that the alerts fire at real outages, and that alerts and dashboard use only metrics that the process exposes. */
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { temporaryFolder } from '../../support/app.ts';
import { startServer } from '../../support/process.ts';
import { projectFolder } from '../../support/project.ts';
import { patientMs } from '../../support/tier.ts';

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
