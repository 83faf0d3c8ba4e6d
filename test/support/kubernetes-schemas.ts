/** Checks Kubernetes objects against the schemas of the Kubernetes API and of the Prometheus Operator. */
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

export interface Schemas {
  /** What is wrong with the objects: wrong types, missing, unknown and disallowed values. */
  problems: (objects: readonly KubernetesObject[]) => string[];
}

/** Their schemas and types are generated from the OpenAPI document of Kubernetes and the CRDs of the Prometheus Operator. */
const packages = ['kubernetes-models@5.1.0', '@kubernetes-models/prometheus-operator@6.0.0'];

/** The module with the models of this version of the API. */
const moduleOf = ({ apiVersion }: KubernetesObject) =>
  /^monitoring\.coreos\.com/.test(apiVersion)
    ? `@kubernetes-models/prometheus-operator/${apiVersion}`
    : `kubernetes-models/${apiVersion}`;

/** Downloads the schemas on demand: as dependencies they would add 29 MB to every installation. Throws if npm cannot. */
export function loadSchemas(): Schemas {
  const folder = path.join(projectFolder, 'node_modules/.cache/animal-store/kubernetes-schemas');
  mkdirSync(folder, { recursive: true });
  const options = ['--prefix', folder, '--ignore-scripts', '--no-save', '--no-audit', '--no-fund', '--prefer-offline'];
  execFileSync('npm', ['install', ...options, ...packages], { stdio: ['ignore', 'ignore', 'pipe'], timeout: 120_000 });

  /** The schemas allow unknown properties. TypeScript does not, in a literal. */
  function unknownProperties(objects: readonly KubernetesObject[]): string[] {
    const file = path.join(folder, 'manifests.ts');
    const lines = objects.map((object, index) => {
      const type = `import('${moduleOf(object)}').I${object.kind}`;
      return `export const object${index}: ${type} = ${JSON.stringify(object)};\n`;
    });
    writeFileSync(file, lines.join(''));
    const options = ['--noEmit', '--strict', '--skipLibCheck', '--module', 'nodenext', '--target', 'esnext'];
    const tsc = path.join(projectFolder, 'node_modules/.bin/tsc');
    const { stdout } = spawnSync(tsc, [...options, '--types', '', '--ignoreConfig', file], { encoding: 'utf8' });
    return stdout.split('\n').flatMap((line) => {
      const [, at, text] = /manifests\.ts\((\d+),\d+\): error \w+: (.*)/.exec(line) ?? [];
      return text === undefined ? [] : [`${objects[Number(at) - 1]?.kind}: ${text}`];
    });
  }

  /** Validates in a module of the folder, from which the packages can be imported. */
  function violations(objects: readonly KubernetesObject[]): string[] {
    const file = path.join(folder, 'validate.mjs');
    const checks = objects.map((object) => {
      const model = `(await import('${moduleOf(object)}')).${object.kind}`;
      return `check('${object.kind}', ${model}, ${JSON.stringify(object)});\n`;
    });
    const check = `function check(kind, Model, object) {
      try { new Model(object).validate(); } catch ({ message }) { console.log(kind + ': ' + message); }
    }\n`;
    writeFileSync(file, check + checks.join(''));
    const stdout = execFileSync(process.execPath, [file], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
    return stdout.split('\n').filter(Boolean);
  }

  return { problems: (objects) => [...violations(objects), ...unknownProperties(objects)] };
}
