/** Tests the nightly backup of deploy/systemd: what systemd would run makes a sound backup, and an alert notices when it is missing. */
import { spawnSync } from 'node:child_process';
import { mkdirSync, readdirSync, utimesSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { read } from '../../support/deployment.ts';
import { runCli, startServer } from '../../support/process.ts';
import { projectFolder } from '../../support/project.ts';

const service = read('deploy/systemd/animal-store-backup.service');
const value = (name: string, unit = service) => new RegExp(`^${name}=(.*)$`, 'm').exec(unit)?.[1] ?? '';

/** What the shell gets, of a command that systemd has unescaped (systemd.service(5), "Command lines"). */
const script = value('ExecStart')
  .replace(/^sh -euc '(.*)'$/, '$1')
  .replaceAll('$$', '$')
  .replaceAll('%%', '%')
  .replaceAll('src/cli.ts', `${projectFolder}src/cli.ts`);

const days = (count: number) => Date.now() / 1000 - count * 86_400;

test('the service backs up beside the running server, checks the backup, and then deletes old ones', async () => {
  const server = await startServer();
  const key = await server.firstKey();
  await server.call(key, 'POST', '/v1/pets', { name: 'Tabby', categoryId: 1 });
  const backups = path.join(server.folder, 'backups');
  mkdirSync(backups);
  for (const [name, age] of [
    ['animals-old.db', 16],
    ['animals-newer.db', 13],
  ] as const) {
    writeFileSync(path.join(backups, name), '');
    utimesSync(path.join(backups, name), days(age), days(age));
  }
  const env = { PATH: `${path.dirname(process.execPath)}:${process.env.PATH}`, BACKUPS: backups };
  const run = (more = {}) =>
    spawnSync('sh', ['-euc', script], { cwd: server.folder, env: { ...env, ...more }, encoding: 'utf8' });
  expect(run()).toMatchObject({ status: 0, stderr: '' });
  const [made = '', ...others] = readdirSync(backups).sort();
  expect([made, others]).toEqual([expect.stringMatching(/^animals-\d{4}-\d\d-\d\dT\d{6}Z\.db$/), ['animals-newer.db']]);
  const { code, stdout } = await runCli(['check', path.join(backups, made), '--json']);
  expect([code, JSON.parse(stdout).rows.pet]).toEqual([0, 1]);
  // If it fails, systemd does not run ExecStartPost, and nothing is deleted.
  utimesSync(path.join(backups, made), days(16), days(16));
  expect(run({ DATABASE_URL: 'sqlite:missing.db' }).status).not.toBe(0);
  expect(readdirSync(backups)).toContain(made);
});

test('the timer runs it each night, and AnimalStoreBackupMissing watches the file that it touches', () => {
  const timer = read('deploy/systemd/animal-store-backup.timer');
  expect(value('OnCalendar', timer)).toMatch(/^\*-\*-\* \d\d:\d\d:00 UTC$/);
  expect([value('Type'), value('TimeoutStartSec')]).toEqual(['oneshot', '1h']);
  const { groups } = parse(read('deploy/prometheus/alerts.yml')) as { groups: { rules: Record<string, string>[] }[] };
  const { expr = '' } =
    groups.flatMap(({ rules }) => rules).find(({ alert }) => alert === 'AnimalStoreBackupMissing') ?? {};
  const [, pattern = ''] = /node_textfile_mtime_seconds\{file=~"([^"]*)"\}/.exec(expr) ?? [];
  const [, file] = /^-\+touch (\S+)$/.exec(value('ExecStartPost')) ?? [];
  // Prometheus anchors its patterns.
  expect(file).toMatch(new RegExp(`^${pattern}$`));
  expect(read('docs/scaling.md')).toContain(`touch ${file}`);
});
