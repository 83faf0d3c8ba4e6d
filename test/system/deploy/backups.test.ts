/** Tests the nightly backups of deploy/systemd and deploy/kubernetes: what they run makes a sound backup. */
import { spawnSync } from 'node:child_process';
import { mkdirSync, readdirSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { temporaryFolder } from '../../support/app.ts';
import { runCli, startServer } from '../../support/process.ts';
import { pathToNode, projectFolder, read } from '../../support/project.ts';
import { injecting, needStrace } from '../../support/strace.ts';

const service = read('deploy/systemd/animal-store-backup.service');
const settingOf = (name: string) => new RegExp(`^${name}=(.*)$`, 'm').exec(service)?.[1] ?? '';
const job = parse(read('deploy/kubernetes/sqlite/backup-job.yaml'));

/** What the shell gets, of a command that systemd has unescaped (systemd.service(5), "Command lines"). */
const ofSystemd = settingOf('ExecStart')
  .replace(/^sh -euc '(.*)'$/, '$1')
  .replaceAll('$$', '$')
  .replaceAll('%%', '%');
const ofKubernetes = job.spec.jobTemplate.spec.template.spec.containers[0].args[0].replaceAll('/backups', '$BACKUPS');

const scripts: [what: string, given: string][] = [
  ['systemd', ofSystemd],
  ['Kubernetes', ofKubernetes],
];

/** A running server with an animal, and a folder of backups that are 16 and 13 days old. `run` returns the script's exit code. */
async function prepare(given: string) {
  const server = await startServer();
  await server.add();
  const backups = `${server.folder}/backups`;
  mkdirSync(backups);
  function age(name: string, days: number) {
    const time = Date.now() / 1000 - days * 86_400;
    utimesSync(`${backups}/${name}`, time, time);
  }
  for (const days of [16, 13]) {
    writeFileSync(`${backups}/animals-x${days}`, '');
    age(`animals-x${days}`, days);
  }
  const script = given.replaceAll('src/cli.ts', `${projectFolder}src/cli.ts`);
  const run = (more = {}, under: string[] = []) => {
    const env = { PATH: pathToNode, BACKUPS: backups, ...more };
    const [file = '', ...args] = [...under, 'sh', '-euc', script];
    return spawnSync(file, args, { cwd: server.folder, env, encoding: 'utf8' }).status;
  };
  return { backups, age, run };
}

test.each(scripts)('%s backs up beside the running server, and then deletes old backups', async (_what, given) => {
  const { backups, age, run } = await prepare(given);
  expect(run()).toBe(0);
  const [made = '', ...others] = readdirSync(backups).sort();
  expect(others).toEqual(['animals-x13']);
  const { code, stdout } = await runCli(['check', `${backups}/${made}`, '--json']);
  expect([code, JSON.parse(stdout).rows.pet]).toEqual([0, 1]);
  // One that fails deletes nothing.
  age(made, 16);
  expect(run({ DATABASE_URL: 'sqlite:missing.db' })).not.toBe(0);
  expect(readdirSync(backups)).toContain(made);
});

test.for(scripts)('%s does so in a folder that cannot be synced', async ([, given], context) => {
  needStrace(context);
  const { backups, run } = await prepare(given);
  expect(run({}, injecting('fsync', 'error=EINVAL', backups))).toBe(0);
  const [made = '', ...others] = readdirSync(backups).sort();
  expect([made, others]).toEqual([expect.stringMatching(/^animals-.+Z\.db$/), ['animals-x13']]);
});

test('node_exporter can read the mark of a backup, whatever the umask', () => {
  const mark = `${temporaryFolder()}/mark`;
  const command = settingOf('ExecStartPost').replace(/^\W+(.*) \S+$/, '$1');
  spawnSync('sh', ['-c', `umask 077; ${command} ${mark}`]);
  expect(statSync(mark).mode & 0o777).toBe(0o644);
});
