/** Tests that files which repeat a date, a default or a limit have the value of the source. */
import { globSync } from 'node:fs';
import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { readConfig, signUpOf } from '../../../src/config.ts';
import { keptEndedKeys } from '../../../src/core/accounts.ts';
import { dateText, deprecatedSince, sunset } from '../../../src/core/deprecation.ts';
import { limits } from '../../../src/core/limits.ts';
import { messageAgeMs } from '../../../src/core/messages.ts';
import { deployments, imageSettings, read } from '../../support/deployment.ts';
import { projectFolder } from '../../support/project.ts';

const seconds = (date: Date) => String(date.getTime() / 1000);

test.for([
  ['README.md', dateText(sunset)],
  ['README.md', `sunset: ${sunset.toUTCString()}\n`],
  ['README.md', `deprecation: @${seconds(deprecatedSince)}\n`],
  ['.env.example', dateText(sunset)],
  ['deploy/grafana/dashboard.json', dateText(sunset)],
] as const)('%s has the date of the deprecated operation: %s', ([file, text]) => {
  expect(read(file)).toContain(text);
});

test('no file has another date of the removal', () => {
  const places = [
    '{README,docs/*,docs/decisions/*}.md',
    '.env.example',
    '{deploy,src,scripts,examples}/**/*.*',
    '*.yaml',
  ];
  const files = globSync(places, { cwd: projectFolder });
  expect(files.length).toBeGreaterThan(200);
  const removal = sunset.toISOString().slice(0, 10);
  const dates = /\b(?:\d{1,2} [A-Z][a-z]{2,8} \d{4}|\d{4}-\d\d-\d\d)\b/g;
  const later = files.flatMap((file) =>
    (read(file).match(dates) ?? [])
      .map((text) => new Date(text.includes('-') ? text : `${text} UTC`))
      .filter((date) => date.getUTCFullYear() > deprecatedSince.getUTCFullYear() + 1)
      .map((date) => [file, date.toISOString().slice(0, 10)]),
  );
  expect(later.length).toBeGreaterThan(10);
  expect(later.filter(([, day]) => day !== removal)).toEqual([]);
});

const settings = readConfig({});
const { production, staging } = parse(read('compose.yaml'), { merge: true }).services;
const ports = [production, staging].map(({ ports }) => ports.map((port: string) => port.split(':')[1]));
const server = `http://${settings.HOST}:${settings.PORT}`;
const ops = `${settings.OPS_HOST}:${settings.OPS_PORT}`;
const openTo = (signUp: string) =>
  ['development', ...deployments].filter((DEPLOYMENT) => signUpOf(readConfig({ DEPLOYMENT })) === signUp).join(', ');
const _mebibytes = (bytes: number) => `${bytes / 1024 ** 2} MiB`;

test.for([
  ['README.md', `$ curl -s ${server}/v1/pets `],
  ['README.md', `listens on <${server}>`],
  ['README.md', `If port ${settings.OPS_PORT} is in use`],
  ...['README.md', 'find.js', 'pets.py', 'retry.js', 'session.sh', 'typed.ts', 'walk.js'].map(
    (name) => [`examples/${name}`, `${server}/v1`] as const,
  ),
  ['docs/operations.md', `(\`OPS_HOST\`, \`OPS_PORT\`; ${ops}) requires no API key`],
  ['docs/operations.md', `curl http://${ops}/readyz`],
  ['docs/operations.md', `-p ${settings.HOST}:${settings.PORT}:${imageSettings.PORT} `],
  [
    'docs/operations.md',
    `\`HOST\` and \`OPS_HOST\` are ${imageSettings.HOST} and \`LAME_DUCK_MS\` is ${imageSettings.LAME_DUCK_MS}.`,
  ],
  ['docs/operations.md', `Do not publish ${imageSettings.OPS_PORT}, the ops port`],
  ['docs/operations.md', `\`LAME_DUCK_MS=${imageSettings.LAME_DUCK_MS}\``],
  [
    'docs/operations.md',
    `production (127.0.0.1:${ports[0][0]}, ops port ${ports[0][1]}) and staging (${ports[1][0]}, ops port ${ports[1][1]})`,
  ],
  ['docs/operations.md', `| \`open\` | everybody who can reach the pages | ${openTo('open')} |`],
  ['docs/operations.md', `\`animal-store account invite\` | ${openTo('invitation')} |`],
  [
    'docs/operations.md',
    `Its ${limits.activeKeys} active keys and the ${keptEndedKeys} newest ended ones, ${limits.sessions} sessions`,
  ],
  ['docs/operations.md', `last ${messageAgeMs / 3_600_000} hours (at most ${limits.messages.toLocaleString('en')})`],
  ['deploy/nginx.conf', `MAX_CONNECTIONS (${settings.MAX_CONNECTIONS})`],
] as const)('%s has the defaults: %s', ([file, text]) => {
  expect(read(file)).toContain(text);
});
