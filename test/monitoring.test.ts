/** Tests that the alert rules and the dashboard use only metrics that the process exposes. */
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { startServer } from './support/process.ts';
import { projectFolder } from './support/project.ts';

interface Rule {
  alert: string;
  expr: string;
}

const read = (file: string) => readFileSync(`${projectFolder}${file}`, 'utf8');
const rules = (parse(read('deploy/prometheus/alerts.yml')) as { groups: [{ rules: Rule[] }] }).groups[0].rules;
const dashboard = JSON.parse(read('deploy/grafana/dashboard.json')) as {
  panels: { title: string; targets: { expr: string }[] }[];
};

/** Metrics of the server and of prom-client in an expression. `up` comes from Prometheus itself. */
const namesIn = (expr: string) =>
  [...expr.matchAll(/\b(?:http|animal_store|nodejs|process)_[a-z0-9_]+/g)].map(([name]) => name);

test('alerts and dashboard use only metrics that the process exposes', async () => {
  const server = await startServer();
  // A series with labels appears only with its first value.
  const key = await server.firstKey();
  await server.call(key, 'GET', '/v1/pets/1');
  const text = await (await fetch(`${server.opsUrl()}/metrics`)).text();
  const exposed = new Set(text.split('\n').map((line) => line.replace(/^# TYPE (\S+) .*/, '$1').replace(/[{ ].*/, '')));
  const asked = [
    ...rules.map(({ alert, expr }) => [alert, expr] as const),
    ...dashboard.panels.flatMap(({ title, targets }) => targets.map(({ expr }) => [title, expr] as const)),
  ];
  expect(asked.length).toBeGreaterThan(25);
  for (const [where, expr] of asked) {
    expect(namesIn(expr).length + Number(/\bup\b/.test(expr)), where).toBeGreaterThan(0);
    for (const name of namesIn(expr)) expect([...exposed], `${where}: ${name}`).toContain(name);
  }
});

test('every alert is explained in docs/operations.md', () => {
  const operations = read('docs/operations.md');
  for (const { alert } of rules) expect(operations).toContain(`| \`${alert}\` |`);
});

test('promtool accepts the rules, and they fire when they should', ({ skip }) => {
  const folder = `${projectFolder}deploy/prometheus`;
  if (spawnSync('promtool', ['--version']).error) skip('promtool (Debian: prometheus) is not installed');
  for (const args of [
    ['check', 'rules', 'alerts.yml'],
    ['test', 'rules', 'alerts.test.yml'],
  ]) {
    const { status, stdout, stderr } = spawnSync('promtool', args, { cwd: folder, encoding: 'utf8' });
    expect(status, stdout + stderr).toBe(0);
  }
});
