/**
 * Tests that the Kubernetes manifests are valid, agree with the server's settings, ports, paths and times, and ask for no privileges. CloudNativePG's own
 * schemas are in no package of npm: of its manifests, only what they share with the servers is tested.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import { describe, expect, test } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { readConfig, settings } from '../../../src/config.ts';
import { dockerfile, imageSettings, stopMs } from '../../support/deployment.ts';
import { projectFolder, read, version } from '../../support/project.ts';

interface KubernetesObject {
  kind: string;
  // biome-ignore lint/suspicious/noExplicitAny: objects of many kinds.
  [name: string]: any;
}

const noKubectl = spawnSync('kubectl', ['kustomize', '--help']).status !== 0;

const documents = (text: string) => parseAllDocuments(text).map((document) => document.toJS() as KubernetesObject);

/** The objects that `kubectl apply -k` would apply. */
const build = (folder: string) =>
  noKubectl ? [] : documents(execFileSync('kubectl', ['kustomize', projectFolder + folder], { encoding: 'utf8' }));

const built = { sqlite: build('deploy/kubernetes/sqlite'), postgres: build('deploy/kubernetes/postgres') };

const named = (objects: KubernetesObject[], kind: string, name = '') =>
  objects.find((object) => object.kind === kind && object.metadata.name.startsWith(name)) as KubernetesObject;

/** The labels and the specification of the pods that an object starts. */
const podOf = ({ kind, spec }: KubernetesObject) => (kind === 'CronJob' ? spec.jobTemplate.spec : spec).template;

/** The containers of a pod of servers. */
const containersOf = (object: KubernetesObject) =>
  Object.fromEntries(podOf(object).spec.containers.map((container: KubernetesObject) => [container.name, container]));

const servers = [named(built.sqlite, 'StatefulSet'), named(built.postgres, 'Deployment')] as const;
const sidecar = read('deploy/nginx/sidecar.conf');

/** The ConfigMap of the first volume of a container. */
const configMapOf = ({ volumes }: KubernetesObject, { volumeMounts }: KubernetesObject) =>
  volumes.find(({ name }: KubernetesObject) => name === volumeMounts[0].name).configMap;

const jobs = [named(built.sqlite, 'CronJob'), named(built.postgres, 'Job')] as const;

describe.skipIf(noKubectl)('the Kubernetes manifests', () => {
  test('lead requests to nginx, probe the ops port, and give time to stop', () => {
    for (const server of servers) {
      const { metadata, spec } = podOf(server);
      const { nginx, 'animal-store': container } = containersOf(server);
      expect(metadata.annotations['kubectl.kubernetes.io/default-container']).toBe('animal-store');
      const { ports, startupProbe, livenessProbe, readinessProbe } = container;
      expect([...nginx.ports, ...ports]).toEqual([
        { name: 'http', containerPort: Number(/listen (\d+);/.exec(sidecar)?.[1]) },
        { name: 'ops', containerPort: Number(imageSettings.OPS_PORT) },
      ]);
      // nginx stops accepting a moment before the server does.
      const [, seconds] = nginx.lifecycle.preStop.exec.command;
      expect(Number(imageSettings.LAME_DUCK_MS) - Number(seconds) * 1000).toBe(1000);
      const probes = [startupProbe, livenessProbe, readinessProbe].map(({ httpGet }) => httpGet);
      expect(probes).toMatchObject(['/livez', '/livez', '/readyz'].map((path) => ({ path, port: 'ops' })));
      expect(spec.terminationGracePeriodSeconds * 1000).toBeGreaterThan(stopMs);
    }
  });

  test('remove privileges that the pods do not need', () => {
    const user = Number(/^USER (\d+):\d+$/m.exec(dockerfile)?.[1]);
    for (const object of [...servers, ...jobs]) {
      const { containers, ...spec } = podOf(object).spec;
      expect(spec, object.kind).toMatchObject({
        automountServiceAccountToken: false,
        securityContext: { runAsNonRoot: true, runAsUser: user, runAsGroup: user, fsGroup: user },
      });
      for (const { resources, securityContext } of containers) {
        expect(securityContext, object.kind).toEqual({
          allowPrivilegeEscalation: false,
          readOnlyRootFilesystem: true,
          capabilities: { drop: ['ALL'] },
        });
        expect(Object.keys(resources.limits)).toEqual(expect.arrayContaining(['cpu', 'memory', 'ephemeral-storage']));
        expect(resources.requests.memory).toBe(resources.limits.memory);
      }
    }
  });

  test.each([
    ['sqlite', 0],
    ['postgres', 1],
  ] as const)('%s: known settings, this release, and references that agree', (overlay, at) => {
    const objects = built[overlay];
    const [server, job] = [podOf(servers[at]), podOf(jobs[at])];
    const { 'animal-store': container, nginx } = containersOf(servers[at]);
    const [{ data }, files] = [container.envFrom[0].configMapRef, configMapOf(server.spec, nginx)].map(({ name }) =>
      named(objects, 'ConfigMap', name),
    ) as [KubernetesObject, KubernetesObject];
    expect(Object.keys(settings.properties)).toEqual(expect.arrayContaining(Object.keys(data)));
    expect(readConfig({ ...imageSettings, ...data }).DEPLOYMENT).toBe('production');
    // Only nginx, in the same pod, reaches the server and is trusted.
    expect([data.HOST, data.TRUST_PROXY]).toEqual(['127.0.0.1', '127.0.0.1']);
    expect(sidecar).toContain(`server ${data.HOST}:${imageSettings.PORT} `);
    expect(nginx.command.join(' ')).toBe(`nginx -c ${nginx.volumeMounts[0].mountPath}/sidecar.conf`);
    for (const name of ['sidecar.conf', 'http.conf', 'server.conf', 'behind-tls.conf'])
      expect(files.data[name]).toBe(read(`deploy/nginx/${name}`));
    // No more than the pod network.
    expect(sidecar.match(/set_real_ip_from .*/g)).toEqual([expect.stringMatching(/\/(1[6-9]|2\d);$/)]);
    expect(nginx.image).toMatch(/^nginx:\d+\.\d+-alpine$/);
    expect(container.image).toContain(`:${version}@sha256:`);
    expect(job.spec.containers[0].image).toBe(container.image);
    // The pods of jobs get no requests, do not count as servers, and are under the network policies.
    const selects = (selector: Record<string, string>) =>
      [server, job].map((pod) =>
        Object.entries(selector).every(([name, value]) => pod.metadata.labels[name] === value),
      );
    for (const kind of ['Service', 'PodDisruptionBudget', 'PodMonitor']) {
      const { selector } = named(objects, kind).spec;
      expect([kind, ...selects(selector.matchLabels ?? selector)]).toEqual([kind, true, false]);
    }
    for (const { spec } of objects.filter(({ kind }) => kind === 'NetworkPolicy'))
      expect(selects(spec.podSelector.matchLabels)).toEqual([true, true]);
  });
});

test('CloudNativePG loses no commit: each is on the standby that is promoted', () => {
  const [{ spec }] = documents(read('deploy/cloudnativepg/cluster.yaml')) as [KubernetesObject];
  expect(spec.postgresql.synchronous).toMatchObject({ number: 1, dataDurability: 'required', failoverQuorum: true });
});
