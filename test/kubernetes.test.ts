/** Tests that the Kubernetes manifests agree with the server's settings, ports, paths and timeouts. */
import { spawnSync } from 'node:child_process';
import { globSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { parse, parseAllDocuments } from 'yaml';
import { deployments, dockerfile, expectSettings, imageSettings, read, stopMs } from './support/deployment.ts';
import { launch, startServer } from './support/process.ts';
import { projectFolder } from './support/project.ts';

const { version } = JSON.parse(read('package.json'));

describe('the Kubernetes manifests', () => {
  const base = 'deploy/kubernetes/base';
  const { spec } = parse(read(`${base}/stateful-set.yaml`));
  const pod = spec.template.spec;
  const [container] = pod.containers;

  test('probe the ops port, at paths that it serves', async () => {
    const ports = Object.fromEntries(
      container.ports.map((port: { name: string; containerPort: number }) => [port.name, port.containerPort]),
    );
    expect(ports).toEqual({ http: Number(imageSettings.PORT), ops: Number(imageSettings.OPS_PORT) });
    const server = await startServer();
    for (const [probe, status] of [
      ['startupProbe', 'live'],
      ['livenessProbe', 'live'],
      ['readinessProbe', 'ready'],
    ] as const) {
      const { path: target, port } = container[probe].httpGet;
      expect(port).toBe('ops');
      expect(await (await fetch(server.opsUrl() + target)).json()).toEqual({ status });
    }
    const { annotations } = spec.template.metadata;
    expect(annotations['prometheus.io/port']).toBe(String(ports.ops));
    expect((await fetch(server.opsUrl() + annotations['prometheus.io/path'])).status).toBe(200);
    const service = parse(read(`${base}/service.yaml`));
    expect(service.spec.ports).toEqual([{ name: 'http', port: 80, targetPort: 'http' }]);
  });

  test('run one process with its own volume, and give it enough time to stop', () => {
    expect(spec.replicas).toBe(1);
    expect(pod.terminationGracePeriodSeconds * 1000).toBeGreaterThan(stopMs);
    expect(container.volumeMounts).toEqual([{ name: spec.volumeClaimTemplates[0].metadata.name, mountPath: '/data' }]);
    expect(parse(read(`${base}/pod-disruption-budget.yaml`)).spec).toMatchObject({ maxUnavailable: 1 });
  });

  test('remove privileges that the server does not need', () => {
    const [user] = /^USER (\d+):\d+$/m.exec(dockerfile)?.slice(1) ?? [];
    expect(pod).toMatchObject({
      automountServiceAccountToken: false,
      securityContext: { runAsNonRoot: true, runAsUser: Number(user), runAsGroup: Number(user), fsGroup: Number(user) },
    });
    expect(container).toMatchObject({
      securityContext: {
        allowPrivilegeEscalation: false,
        readOnlyRootFilesystem: true,
        capabilities: { drop: ['ALL'] },
      },
      resources: { requests: { memory: '256Mi' }, limits: { memory: '256Mi' } },
    });
    const { ingress, egress } = parse(read(`${base}/network-policy.yaml`)).spec;
    expect(ingress[0].ports).toEqual([{ port: 'http' }]);
    expect(ingress[1]).toMatchObject({ ports: [{ port: 'ops' }], from: [expect.anything()] });
    expect(egress).toEqual([]);
  });

  test('list every file in kustomization.yaml, and are valid YAML', () => {
    const files = globSync('*.yaml', { cwd: path.join(projectFolder, base) }).sort();
    const { resources } = parse(read(`${base}/kustomization.yaml`));
    expect(['kustomization.yaml', ...resources].sort()).toEqual(files);
    for (const file of globSync('deploy/kubernetes/**/*.yaml', { cwd: projectFolder }))
      for (const document of parseAllDocuments(read(file))) expect([file, document.errors]).toEqual([file, []]);
  });

  test.for(deployments)('%s: has only known settings, and the current release', (name) => {
    const { namespace, images, configMapGenerator } = parse(read(`deploy/kubernetes/${name}/kustomization.yaml`));
    const { literals } = configMapGenerator[0];
    expect(namespace).toBe(`animal-store-${name}`);
    expect(images).toMatchObject([{ name: container.image, newTag: version }]);
    expect(configMapGenerator[0].name).toBe(container.envFrom[0].configMapRef.name);
    const env = Object.fromEntries(literals.map((each: string) => each.split(/=(.*)/s)));
    expectSettings(env);
    expect(env.DEPLOYMENT).toBe(name);
  });

  test.for(deployments)('%s: kustomize builds objects with consistent references', async (name, { skip }) => {
    if (spawnSync('kubectl', ['kustomize', '--help']).status !== 0) skip('kubectl is not installed');
    const { code, stdout, stderr } = await launch(
      'kubectl',
      ['kustomize', `${projectFolder}deploy/kubernetes/${name}`],
      {},
    ).end();
    expect([code, stderr]).toEqual([0, '']);
    // biome-ignore lint/suspicious/noExplicitAny: objects of Kubernetes, of many kinds.
    const objects = parseAllDocuments(stdout).map((document) => document.toJS() as any);
    const one = (kind: string) => objects.find((object) => object.kind === kind);
    expect(objects.map(({ kind }) => kind).sort()).toEqual(
      ['ConfigMap', 'Namespace', 'NetworkPolicy', 'PodDisruptionBudget', 'Service', 'StatefulSet'].sort(),
    );
    expect(one('Namespace').metadata.name).toBe(`animal-store-${name}`);
    for (const object of objects)
      if (object.kind !== 'Namespace') expect(object.metadata.namespace).toBe(`animal-store-${name}`);
    const { selector, template, serviceName } = one('StatefulSet').spec;
    expect(template.metadata.labels).toMatchObject(selector.matchLabels);
    expect(template.spec.containers[0].envFrom[0].configMapRef.name).toBe(one('ConfigMap').metadata.name);
    expect(one('ConfigMap').data.DEPLOYMENT).toBe(name);
    expect(serviceName).toBe(one('Service').metadata.name);
    for (const kind of ['Service', 'PodDisruptionBudget', 'NetworkPolicy']) {
      const { spec: found } = one(kind);
      expect(found.selector?.matchLabels ?? found.podSelector?.matchLabels ?? found.selector).toEqual(
        selector.matchLabels,
      );
    }
  });
});
