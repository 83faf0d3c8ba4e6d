/** Tests that the alerts fire at real outages, and that alerts and dashboard use only metrics that the process exposes. */
import { spawnSync } from 'node:child_process';
import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { startServer } from '../../support/process.ts';
import { projectFolder, read } from '../../support/project.ts';

interface Rules {
  groups: { rules: { alert?: string; expr: string }[] }[];
}

interface RuleTests {
  tests: { alert_rule_test: { alertname: string; exp_alerts: { exp_labels: Record<string, string> }[] }[] }[];
}

const alertsFile = read('deploy/prometheus/alerts.yml');
const rules = (parse(alertsFile) as Rules).groups.flatMap((group) => group.rules);
const dashboard = JSON.parse(read('deploy/grafana/dashboard.json')) as { panels: { targets: { expr: string }[] }[] };

/** Metrics of the server and of prom-client. Recorded ratios come from other rules, and a server on SQLite has none of PostgreSQL. */
const own = /(?<![\w:])(?:http|animal_store(?!_database)|nodejs|process)_[a-z0-9_]+/g;

/** Metrics of Prometheus itself, and of the exporters of Kubernetes, probes and PostgreSQL; of the server, those of PostgreSQL. */
const others =
  /\b(?:up|kube_cronjob_\w+|probe_success|probe_ssl_earliest_cert_expiry|pg_stat_archiver_\w+|animal_store_database_\w+)\b/;

const noPromtool = spawnSync('promtool', ['--version']).error && 'promtool (Debian: prometheus) is not installed';

function promtool(...args: string[]) {
  const cwd = `${projectFolder}deploy/prometheus`;
  const { status, stdout, stderr } = spawnSync('promtool', args, { cwd, encoding: 'utf8' });
  expect(status, stdout + stderr).toBe(0);
}

test('alerts and dashboard use only metrics that the process exposes', async () => {
  const server = await startServer();
  // A series with labels appears only with its first value.
  await server.get('/v1/pets/1');
  // blackbox_exporter sends no Accept.
  const [, target = ''] = /targets: \[https:\/\/[^/]+(\S+)\]/.exec(read('deploy/prometheus/prometheus.yml')) ?? [];
  expect((await server.get(target)).status).toBe(200);
  const text = await server.metrics();
  const exposed = text.split('\n').map((line) => line.replace(/^# TYPE (\S+) .*/, '$1').replace(/[{ ].*/, ''));
  const asked = [...rules, ...dashboard.panels.flatMap(({ targets }) => targets)].map(({ expr }) => expr);
  expect(asked.length).toBeGreaterThan(25);
  for (const expr of asked) {
    const names = expr.match(own) ?? [];
    expect(names.length > 0 || others.test(expr), expr).toBe(true);
    expect(exposed).toEqual(expect.arrayContaining(names));
  }
});

test('promtool accepts the rules, and they fire when they should: each with the labels that group notifications', ({
  skip,
}) => {
  if (noPromtool) skip(noPromtool);
  promtool('check', 'rules', 'alerts.yml');
  promtool('test', 'rules', 'alerts.test.yml');
  // promtool compares all labels with these, so a rule that drops one of them fails.
  const { tests } = parse(read('deploy/prometheus/alerts.test.yml')) as RuleTests;
  const cases = tests.flatMap(({ alert_rule_test }) => alert_rule_test);
  for (const { alert } of rules.filter((rule) => rule.alert !== undefined)) {
    const firing = cases.flatMap(({ alertname, exp_alerts }) => (alertname === alert ? exp_alerts : []));
    expect(firing.length, alert).toBeGreaterThan(0);
    for (const { exp_labels } of firing)
      expect(exp_labels, alert).toMatchObject({ job: 'animal-store', namespace: expect.any(String) });
  }
});
