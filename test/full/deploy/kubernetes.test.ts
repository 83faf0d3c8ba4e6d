/** Tests that the Kubernetes manifests are valid, and agree with the server's settings, ports, paths and timeouts. */
import { execFileSync, spawnSync } from 'node:child_process';
import { globSync, mkdirSync, readdirSync, utimesSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { parse, parseAllDocuments } from 'yaml';
import { readConfig, settings } from '../../../src/config.ts';
import { readTarget } from '../../../src/store/postgres/url.ts';
import { dockerfile, imageSettings, read, stopMs } from '../../support/deployment.ts';
import { type KubernetesObject, loadSchemas } from '../../support/kubernetes-schemas.ts';
import { launchCli, runCli, startServer } from '../../support/process.ts';
import { projectFolder } from '../../support/project.ts';
import { patientMs } from '../../support/tier.ts';

const { version } = JSON.parse(read('package.json'));

const folder = 'deploy/kubernetes';
const overlays = ['sqlite', 'postgres'] as const;

const documents = (text: string) => parseAllDocuments(text).map((document) => document.toJS() as KubernetesObject);
const manifest = (file: string) => parse(read(`${folder}/${file}`)) as KubernetesObject;

const noKubectl = spawnSync('kubectl', ['kustomize', '--help']).status !== 0 && 'kubectl is not installed';

/** The objects that `kubectl apply -k` would apply. */
const build = (name: string) =>
  documents(execFileSync('kubectl', ['kustomize', path.join(projectFolder, folder, name)], { encoding: 'utf8' }));

const named = (objects: readonly KubernetesObject[], kind: string, name = 'animal-store') =>
  objects.find((object) => object.kind === kind && object.metadata.name.startsWith(name)) as KubernetesObject;

/** The specification of the pods that an object starts. */
const podOf = ({ kind, spec }: KubernetesObject) =>
  kind === 'CronJob' ? spec.jobTemplate.spec.template : spec.template;

const isSelected = (labels: Record<string, string>, selector: Record<string, string>) =>
  Object.entries(selector).every(([name, value]) => labels[name] === value);

const statefulSet = manifest('sqlite/stateful-set.yaml');
const deployment = manifest('postgres/deployment.yaml');
const backupJob = manifest('sqlite/backup-job.yaml');
const migrationJob = manifest('postgres/migration-job.yaml');
const servers = [statefulSet, deployment];
const [image] = manifest('image/kustomization.yaml').images;

/** The connections that a PostgreSQL with default settings has: max_connections without superuser_reserved_connections. */
const usable = 100 - 3;

/** Backends of each process that may still be ending: test/full/reliability/postgres-connections.test.ts shows that there are no more. */
const ending = 2;

describe('the Kubernetes manifests', () => {
  test('probe the ops port, at paths that it serves, and name its metrics as the alert rules expect', async () => {
    const server = await startServer();
    for (const { spec } of servers) {
      const [container] = spec.template.spec.containers;
      const ports = Object.fromEntries(
        container.ports.map((port: { name: string; containerPort: number }) => [port.name, port.containerPort]),
      );
      expect(ports).toEqual({ http: Number(imageSettings.PORT), ops: Number(imageSettings.OPS_PORT) });
      for (const [probe, status] of [
        ['startupProbe', 'live'],
        ['livenessProbe', 'live'],
        ['readinessProbe', 'ready'],
      ] as const) {
        const { path: target, port } = container[probe].httpGet;
        expect(port).toBe('ops');
        expect(await (await fetch(server.opsUrl() + target)).json()).toMatchObject({ status });
      }
    }
    const { jobLabel, selector, podMetricsEndpoints } = manifest('base/pod-monitor.yaml').spec;
    expect(podMetricsEndpoints).toMatchObject([{ port: 'ops', path: '/metrics' }]);
    expect((await fetch(server.opsUrl() + podMetricsEndpoints[0].path)).status).toBe(200);
    const jobs = new Set(read('deploy/prometheus/alerts.yml').match(/\bjob="[^"]*"/g));
    for (const { spec } of servers) {
      const { labels } = spec.template.metadata;
      expect(isSelected(labels, selector.matchLabels)).toBe(true);
      expect([...jobs]).toEqual([`job="${labels[jobLabel]}"`]);
    }
    expect(manifest('base/service.yaml').spec.ports).toEqual([{ name: 'http', port: 80, targetPort: 'http' }]);
  });

  test('give servers enough time to stop', () => {
    for (const { spec } of servers)
      expect(spec.template.spec.terminationGracePeriodSeconds * 1000).toBeGreaterThan(stopMs);
  });

  test('never open more connections than a PostgreSQL with default settings has for them', () => {
    const secrets = documents(read(`${folder}/postgres/secrets.example.yaml`));
    const [server, migration] = secrets.map(({ stringData }) => stringData.url as string) as [string, string];
    // The file is not there.
    const connections = (url: string) => readTarget(url.replace(/&sslrootcert=[^&]*/, '')).connections;
    expect(readConfig({ DATABASE_URL: server }).DATABASE_URL).toBe(server);
    const { maxReplicas, minReplicas } = manifest('postgres/horizontal-pod-autoscaler.yaml').spec;
    const { maxSurge, maxUnavailable } = deployment.spec.strategy.rollingUpdate;
    expect([minReplicas > 1, maxUnavailable]).toEqual([true, 0]);
    // One more is still stopping. Each process has `ending` backends more, which end a moment after their connections.
    const processes = maxReplicas + maxSurge + 1;
    const most = processes * (connections(server) + ending) + connections(migration) + ending;
    expect(most).toBeLessThan(usable);
    const page = read('docs/scaling.md').replace(/\s+/g, ' ');
    expect(read(`${folder}/postgres/secrets.example.yaml`)).toContain(`: ${most} of PostgreSQL's default of 100.`);
    expect(page).toContain(`At most ${processes} run at once, so with \`connections=${connections(server)}\` they`);
    expect(page).toContain(`take at most ${most} of PostgreSQL's connections`);
  });

  test('mount the Secrets where the settings look for the URL and its certificate, readable by the group alone', () => {
    const secrets = documents(read(`${folder}/postgres/secrets.example.yaml`));
    const contentOf = (name: string) =>
      secrets.find(({ metadata }) => metadata.name === name)?.stringData as Record<string, string>;
    const job = migrationJob.spec.template.spec.volumes[0].projected;
    const inJob = job.sources.flatMap(
      ({ secret }: { secret: { name: string; items: { key: string; path: string }[] } }) =>
        secret.items.map(({ key, path: file }) => [file, contentOf(secret.name)[key]]),
    );
    const { secret } = deployment.spec.template.spec.volumes[0];
    for (const [{ spec }, files, mode] of [
      [deployment, contentOf(secret.secretName), secret.defaultMode],
      [migrationJob, Object.fromEntries(inJob), job.defaultMode],
    ] as const) {
      const [{ volumeMounts, env }] = spec.template.spec.containers;
      const at = (file: string) => `${volumeMounts[0].mountPath}/${file}`;
      expect(env).toEqual([
        // Otherwise the image's.
        { name: 'DATABASE_URL', value: '' },
        { name: 'DATABASE_URL_FILE', value: at('url') },
      ]);
      expect(Object.keys(settings.properties)).toContain('DATABASE_URL_FILE');
      expect(Object.keys(files).sort()).toEqual(['ca.crt', 'url']);
      expect(new URL(files.url.replace(/,[^/]*/, '')).searchParams.get('sslrootcert')).toBe(at('ca.crt'));
      expect(mode).toBe(0o440);
    }
    expect(contentOf('animal-store-migration').url).toContain('animal_store_owner');
    expect(contentOf(secret.secretName).url).toContain('//animal_store:');
  });

  test('migrate with a command that exists, in a job of this release', async () => {
    expect(migrationJob.metadata.name).toBe(`animal-store-migrate-${version.replaceAll('.', '-')}`);
    const [node, cli, ...args] = migrationJob.spec.template.spec.containers[0].command;
    expect([node, cli]).toEqual(['node', 'src/cli.ts']);
    expect(await runCli(args)).toMatchObject({ code: 0 });
    // A setting would change the name of the ConfigMap, and a Job cannot be changed.
    expect(migrationJob.spec.template.spec.containers[0]).not.toHaveProperty('envFrom');
  });

  test('back up beside the running server with a command that works, and delete only old backups', async () => {
    const server = await startServer();
    const key = await server.firstKey();
    await server.call(key, 'POST', '/v1/pets', { name: 'Tabby', categoryId: 1 });
    const backups = path.join(server.folder, 'backups');
    mkdirSync(backups);
    const old = path.join(backups, 'animals-2020-01-01T021700Z.db');
    writeFileSync(old, '');
    const days = (count: number) => Date.now() / 1000 - count * 86_400;
    utimesSync(old, days(16), days(16));
    writeFileSync(path.join(backups, 'animals-newer.db'), '');
    utimesSync(path.join(backups, 'animals-newer.db'), days(13), days(13));
    const [{ command, args, volumeMounts }] = podOf(backupJob).spec.containers;
    expect(volumeMounts.map(({ mountPath }: { mountPath: string }) => mountPath)).toEqual(['/data', '/backups']);
    const [shell, ...options] = command;
    const script = args[0].replaceAll('/backups', backups).replace('src/cli.ts', `${projectFolder}src/cli.ts`);
    const env = { PATH: `${path.dirname(process.execPath)}:${process.env.PATH}` };
    execFileSync(shell, [...options, script], { cwd: server.folder, env, stdio: ['ignore', 'ignore', 'pipe'] });
    const made = readdirSync(backups).filter((file) => file.endsWith('.db') && file !== 'animals-newer.db');
    expect(made).toEqual([expect.stringMatching(/^animals-\d{4}-\d\d-\d\dT\d{6}Z\.db$/)]);
    const { code, stdout } = await launchCli(['check', path.join(backups, made[0] as string), '--json']).end();
    expect([code, JSON.parse(stdout).rows.pet]).toEqual([0, 1]);
  });

  test('back up each day, and an alert fires when a backup is later than a run may be', () => {
    const { schedule, startingDeadlineSeconds, jobTemplate } = backupJob.spec;
    expect(schedule).toMatch(/^\d+ \d+ \* \* \*$/);
    const { groups } = parse(read('deploy/prometheus/alerts.yml')) as { groups: { rules: Record<string, string>[] }[] };
    const { expr = '' } =
      groups.flatMap(({ rules }) => rules).find(({ alert }) => alert === 'AnimalStoreBackupMissing') ?? {};
    const [, hours] = /> (\d+) \* 3600\n$/.exec(expr) ?? [];
    expect(Number(hours) * 3600).toBe(24 * 3600 + startingDeadlineSeconds + jobTemplate.spec.activeDeadlineSeconds);
    const names = [...expr.matchAll(/\bcronjob="([^"]*)"/g)].map(([, name]) => name);
    expect(new Set(names)).toEqual(new Set([backupJob.metadata.name]));
  });

  test('remove privileges that the pods do not need', () => {
    const [user] = /^USER (\d+):\d+$/m.exec(dockerfile)?.slice(1) ?? [];
    for (const object of [...servers, backupJob, migrationJob]) {
      const { spec } = podOf(object);
      expect(spec, object.kind).toMatchObject({
        automountServiceAccountToken: false,
        securityContext: {
          runAsNonRoot: true,
          runAsUser: Number(user),
          runAsGroup: Number(user),
          fsGroup: Number(user),
        },
      });
      const [{ resources, securityContext }] = spec.containers;
      expect(securityContext, object.kind).toEqual({
        allowPrivilegeEscalation: false,
        readOnlyRootFilesystem: true,
        capabilities: { drop: ['ALL'] },
      });
      expect(resources.requests.memory).toBe(resources.limits.memory);
      expect(Object.keys(resources.requests)).toEqual(['cpu', 'memory', 'ephemeral-storage']);
      expect(Object.keys(resources.limits)).toEqual(Object.keys(resources.requests));
    }
    for (const { spec } of servers) expect(spec.template.spec.containers[0].resources.limits.memory).toBe('256Mi');
  });

  test('list every file in a kustomization.yaml', () => {
    for (const kustomization of globSync(`${folder}/*/kustomization.yaml`, { cwd: projectFolder })) {
      const { resources = [] } = parse(read(kustomization)) as { resources?: string[] };
      const files = readdirSync(path.join(projectFolder, path.dirname(kustomization)));
      const listed = resources.filter((resource) => !resource.startsWith('../'));
      const present = files.filter((file) => file !== 'kustomization.yaml' && !file.endsWith('.example.yaml'));
      expect(listed.sort(), kustomization).toEqual(present.sort());
    }
  });

  test.for(overlays)(
    '%s: has only known settings, the current release, and trusts no more than the pod network',
    (overlay) => {
      const { namespace, images, components, configMapGenerator } = manifest(`${overlay}/kustomization.yaml`);
      const [{ name, literals }] = configMapGenerator;
      expect(namespace).toBe('animal-store-production');
      const [container] = statefulSet.spec.template.spec.containers;
      expect([images, components]).toEqual([undefined, ['../image']]);
      expect(image).toMatchObject({ name: container.image, newTag: version });
      expect(name).toBe(container.envFrom[0].configMapRef.name);
      const env: Record<string, string> = Object.fromEntries(literals.map((each: string) => each.split(/=(.*)/s)));
      expect(Object.keys(settings.properties)).toEqual(expect.arrayContaining(Object.keys(env)));
      expect(readConfig({ ...imageSettings, ...env }).DEPLOYMENT).toBe('production');
      expect(Number(env.TRUST_PROXY?.split('/')[1])).toBeGreaterThanOrEqual(16);
    },
  );

  test.skipIf(noKubectl).for(overlays)('%s: kustomize builds objects with consistent references', (overlay) => {
    const objects = build(overlay);
    const kinds = {
      sqlite: ['StatefulSet', 'CronJob', 'PersistentVolumeClaim'],
      postgres: ['Deployment', 'HorizontalPodAutoscaler', 'Job', 'NetworkPolicy'],
    }[overlay];
    const common = ['ConfigMap', 'Namespace', 'NetworkPolicy', 'PodDisruptionBudget', 'PodMonitor', 'Service'];
    expect(objects.map(({ kind }) => kind).sort()).toEqual([...common, ...kinds].sort());
    for (const { kind, metadata } of objects)
      expect(kind === 'Namespace' ? metadata.name : metadata.namespace).toBe('animal-store-production');
    const server = named(objects, overlay === 'sqlite' ? 'StatefulSet' : 'Deployment');
    const { labels } = server.spec.template.metadata;
    const [container] = server.spec.template.spec.containers;
    expect(isSelected(labels, server.spec.selector.matchLabels)).toBe(true);
    expect(container.image).toBe(`${image.newName}:${version}@${image.digest}`);
    expect(container.envFrom[0].configMapRef.name).toBe(named(objects, 'ConfigMap').metadata.name);
    expect(named(objects, 'ConfigMap').data.DEPLOYMENT).toBe('production');
    if (overlay === 'sqlite') expect(server.spec.serviceName).toBe(named(objects, 'Service').metadata.name);
    // The pods of jobs get no requests, do not count as servers, and are under the network policies.
    const job = overlay === 'sqlite' ? named(objects, 'CronJob') : named(objects, 'Job');
    const ofJob = podOf(job).metadata.labels;
    expect(podOf(job).spec.containers[0].image).toBe(container.image);
    for (const kind of ['Service', 'PodDisruptionBudget', 'PodMonitor']) {
      const { selector } = named(objects, kind).spec;
      const wanted = selector.matchLabels ?? selector;
      expect([kind, isSelected(labels, wanted), isSelected(ofJob, wanted)]).toEqual([kind, true, false]);
    }
    for (const { spec } of objects.filter(({ kind }) => kind === 'NetworkPolicy'))
      for (const pod of [labels, ofJob]) expect(isSelected(pod, spec.podSelector.matchLabels)).toBe(true);
  });

  test.skipIf(noKubectl)(
    'are valid by the schemas of the Kubernetes API and of the Prometheus Operator',
    ({ skip }) => {
      let schemas: ReturnType<typeof loadSchemas>;
      try {
        schemas = loadSchemas();
      } catch (error) {
        if (process.env.CI) throw error;
        return skip('npm cannot download the schemas');
      }
      const secrets = documents(read(`${folder}/postgres/secrets.example.yaml`));
      const all = [...overlays.flatMap(build), ...secrets];
      expect(schemas.problems(all)).toEqual([]);
    },
    patientMs,
  );
});
