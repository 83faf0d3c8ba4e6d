/**
 * Tests that the manifests for CloudNativePG agree with each other and with what the server reads. The operator's own schemas are in no package of npm:
 * what it would refuse is not found here.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { parse, parseAllDocuments } from 'yaml';
import { read } from '../../support/deployment.ts';
import type { KubernetesObject } from '../../support/kubernetes-schemas.ts';
import { projectFolder } from '../../support/project.ts';

const folder = 'deploy/cloudnativepg';
const documents = (text: string) => parseAllDocuments(text).map((document) => document.toJS() as KubernetesObject);
const { namespace, resources } = parse(read(`${folder}/kustomization.yaml`)) as Record<string, string[] & string>;
const objects = (resources ?? []).flatMap((file) => documents(read(`${folder}/${file}`)));
const secrets = documents(read(`${folder}/secrets.example.yaml`));
const ofKind = (kind: string) => objects.filter((object) => object.kind === kind);
const [cluster] = ofKind('Cluster') as [KubernetesObject];
const { name } = cluster.metadata;

const noKubectl = spawnSync('kubectl', ['kustomize', '--help']).status !== 0 && 'kubectl is not installed';

test('the address of the servers is the Service that leads to the primary', () => {
  const urls = [...read('deploy/kubernetes/postgres/secrets.example.yaml').matchAll(/postgres:\/\/\S+/g)];
  expect(urls).toHaveLength(2);
  for (const [url] of urls) {
    const { hostname, pathname } = new URL(url);
    expect([hostname, pathname]).toEqual([`${name}-rw.${namespace}.svc`, `/${cluster.spec.bootstrap.initdb.database}`]);
  }
  const policy = read('deploy/kubernetes/postgres/network-policy.yaml');
  expect(policy).toContain(`kubernetes.io/metadata.name: ${namespace}\n`);
});

test('each acknowledged commit is on the standby that is promoted', () => {
  expect(cluster.spec.postgresql.synchronous).toEqual({
    ...{ method: 'first', number: 1, maxStandbyNamesFromCluster: 1 },
    ...{ dataDurability: 'required', failoverQuorum: true },
  });
});

test('the roles, the connections and the Secrets are those of the servers', () => {
  const { owner, secret, postInitApplicationSQL } = cluster.spec.bootstrap.initdb;
  const [role] = cluster.spec.managed.roles;
  const forServers = read('deploy/kubernetes/postgres/secrets.example.yaml');
  const operations = read('docs/operations.md');
  for (const [user, file] of [
    [owner, secret.name],
    [role.name, role.passwordSecret.name],
  ]) {
    expect(forServers).toContain(`postgres://${user}:`);
    expect(operations).toContain(`CREATE ROLE ${user} LOGIN;`);
    const given = secrets.find(({ metadata }) => metadata.name === file);
    expect([given?.type, given?.stringData.username]).toEqual(['kubernetes.io/basic-auth', user]);
  }
  for (const statement of postInitApplicationSQL) expect(operations).toContain(`${statement};`);
  const [, most] = /: (\d+) of PostgreSQL's default of 100/.exec(forServers) ?? [];
  expect(Number(cluster.spec.postgresql.parameters.max_connections)).toBeGreaterThan(Number(most) + 3);
});

test('the archive and the nightly base backup have their place, outside of the cluster', () => {
  const [[store], [backup]] = [ofKind('ObjectStore'), ofKind('ScheduledBackup')];
  const [plugin] = cluster.spec.plugins;
  expect(plugin).toMatchObject({ isWALArchiver: true, parameters: { barmanObjectName: store?.metadata.name } });
  expect(backup?.spec).toMatchObject({
    cluster: { name },
    method: 'plugin',
    pluginConfiguration: { name: plugin.name },
    schedule: expect.stringMatching(/^0 \d+ \d+ \* \* \*$/),
  });
  const { endpointURL, s3Credentials } = store?.spec.configuration ?? {};
  expect(new URL(endpointURL).hostname).toMatch(/\.example\.com$/);
  for (const { name: file, key } of Object.values(s3Credentials) as { name: string; key: string }[])
    expect(secrets.find(({ metadata }) => metadata.name === file)?.stringData).toHaveProperty(key);
});

test('every file is listed, and kustomize builds all', ({ skip }) => {
  const files = readdirSync(path.join(projectFolder, folder)).filter(
    (file) => !/^(kustomiz|README|.*example)/.test(file),
  );
  expect(files.sort()).toEqual([...(resources ?? [])].sort());
  if (noKubectl) skip(noKubectl);
  const text = execFileSync('kubectl', ['kustomize', path.join(projectFolder, folder)], { encoding: 'utf8' });
  const built = documents(text);
  expect(built.length).toBe(objects.length);
  for (const { metadata } of built) expect(metadata.namespace).toBe(namespace);
});
