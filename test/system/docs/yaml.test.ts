/** Reads the OpenAPI documents, as they are committed and served, with readers of YAML 1.1 and 1.2. All must find the same values. */
import { spawnSync } from 'node:child_process';
import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { toYaml } from '../../../scripts/openapi.ts';
import { toJson } from '../../../scripts/reference/document.ts';
import { readJson } from '../../../src/core/int64.ts';
import { startApp } from '../../support/app.ts';
import { documentNames } from '../../support/described.ts';
import { read } from '../../support/project.ts';

/** PyYAML in Python, and with libyaml. Prints JSON with every digit, which has no dates. */
const program = `
import json, sys, yaml
text = sys.stdin.read()
for loader in yaml.SafeLoader, yaml.CSafeLoader:
  print(json.dumps(yaml.load(text, loader), ensure_ascii=False, separators=(",", ":")))`;

const run = (python: string, args: string[], input = '') =>
  spawnSync(python, ['-X', 'utf8', ...args], { encoding: 'utf8', input });

const python = ['python3', '/usr/bin/python3'].find((each) => run(each, ['-c', 'import yaml']).status === 0);

/** The values of a text, as each reader finds them. */
function valuesOf(text: string): string[] {
  const { stdout, stderr } = run(python as string, ['-c', program], text);
  expect(stderr).toBe('');
  const found = (['1.1', '1.2'] as const).map((version) =>
    toJson(parse(text, { version, strict: true, intAsBigInt: true })),
  );
  return [...stdout.trimEnd().split('\n'), ...found];
}

const everyReader = (json: string) => Array(4).fill(json);

test.for(documentNames)('%s is read alike by readers of YAML 1.1 and 1.2', (name, { skip }) => {
  if (!python) skip('python3-yaml is not installed');
  const text = read(name);
  expect(valuesOf(text)).toEqual(everyReader(toJson(parse(text, { intAsBigInt: true }))));
});

test.for([
  ['with BASE_URL', { baseUrl: 'https://[2001:db8::1]:8443/animals/v1' }],
  ['on a loopback address', {}],
  ['at an unknown address', { live: true }],
] as const)(
  'the document that a server %s serves as YAML has the values of that as JSON',
  async ([, options], { skip }) => {
    if (!python) skip('python3-yaml is not installed');
    const { get } = await startApp(options);
    for (const prefix of ['', '/quickstart']) {
      const [yaml, json] = await Promise.all(['yaml', 'json'].map((type) => get(`${prefix}/openapi.${type}`)));
      expect(valuesOf(yaml?.text ?? '')).toEqual(everyReader(toJson(readJson(Buffer.from(json?.text ?? '')))));
    }
  },
);

// What a reader of YAML 1.1 takes for another type or for syntax, unless it is quoted.
const words =
  `yes No on OFF y n true null ~ = << 2030-12-05 2030-12-05T00:00:00Z 1:20 1:20.5 010 0o10 0x1F 0b1 1_000 1e3 .5 +1
-0 .inf .nan 9007199254740993 a:b a? ? [a] a] {a} @a %a #a &a *a !a | > 'a' "a" \\n 🐕`.split(/\s/);
const texts = [
  ...words,
  '',
  ' ',
  'a: b',
  'a, b',
  '- a',
  'a #b',
  'a\tb',
  'a\nb',
  '<https://a.test/?b=1&c=2>; rel="next"',
];

test('the generator writes every text and integer so that all readers find it', ({ skip }) => {
  if (!python) skip('python3-yaml is not installed');
  const long = 'x'.repeat(121);
  const inKeys = (text: string) => ({ onOneLine: { [text]: 1 }, onMore: { [text]: [1], long } });
  const document = {
    texts: texts.map((text) => ({ onOneLine: [{ text }, [text, text]], onMore: { text, list: [text, long] } })),
    keys: texts.map(inKeys),
    integers: [9007199254740993n, -9223372036854775808n, 0, 420],
  };
  expect(valuesOf(toYaml(document))).toEqual(everyReader(toJson(document)));
});
