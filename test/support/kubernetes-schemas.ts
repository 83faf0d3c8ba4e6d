/** Checks Kubernetes objects against the API of Kubernetes and of the Prometheus Operator. */
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { projectFolder } from './project.ts';

export interface KubernetesObject {
  apiVersion: string;
  kind: string;
  // biome-ignore lint/suspicious/noExplicitAny: objects of many kinds.
  [name: string]: any;
}

/** Their types are generated from the OpenAPI document of Kubernetes and the CRDs of the Prometheus Operator. */
const packages = ['kubernetes-models@5.1.0', '@kubernetes-models/prometheus-operator@6.0.0'];

/** The module with the types of this version of the API. */
const moduleOf = ({ apiVersion }: KubernetesObject) =>
  /^monitoring\.coreos\.com/.test(apiVersion)
    ? `@kubernetes-models/prometheus-operator/${apiVersion}`
    : `kubernetes-models/${apiVersion}`;

/**
 * Wrong types, and missing and unknown properties. Downloads the types on demand: as dependencies they would add 29 MB to every installation.
 * Undefined if npm cannot; in CI it throws.
 */
export function findProblems(objects: readonly KubernetesObject[]): string[] | undefined {
  const folder = path.join(projectFolder, 'node_modules/.cache/animal-store/kubernetes-schemas');
  mkdirSync(folder, { recursive: true });
  const options = ['--prefix', folder, '--ignore-scripts', '--no-save', '--no-audit', '--no-fund', '--prefer-offline'];
  try {
    execFileSync('npm', ['install', ...options, ...packages], {
      stdio: ['ignore', 'ignore', 'pipe'],
      timeout: 120_000,
    });
  } catch (error) {
    if (process.env.CI) throw error;
    return undefined;
  }
  const file = path.join(folder, 'manifests.ts');
  const lines = objects.map((object, index) => {
    const type = `import('${moduleOf(object)}').I${object.kind}`;
    return `export const object${index}: ${type} = ${JSON.stringify(object)};\n`;
  });
  writeFileSync(file, lines.join(''));
  const strict = ['--noEmit', '--strict', '--skipLibCheck', '--module', 'nodenext', '--target', 'esnext'];
  const tsc = path.join(projectFolder, 'node_modules/.bin/tsc');
  const { status, stdout } = spawnSync(tsc, [...strict, '--types', '', '--ignoreConfig', file], { encoding: 'utf8' });
  return status === 0 ? [] : stdout.trim().split('\n');
}
