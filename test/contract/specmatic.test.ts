/** Tests the server and the OpenAPI documents with Specmatic's contract tests and its resiliency tests. */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { stringify } from 'yaml';
import { fetchTool, findWorking } from '../support/fetched-tool.ts';
import { launch, startServer } from '../support/process.ts';
import { projectFolder } from '../support/project.ts';
import { figure } from '../support/tier.ts';
import { exceptions } from './exceptions.ts';

const java = findWorking(['java', '-version']);
if (!java) figure('skipped: Specmatic needs Java (openjdk-17-jre-headless)');

const entities: Record<string, string> = { lt: '<', gt: '>', quot: '"', apos: "'", amp: '&', '#10': '\n' };
const decode = (text = '') => text.replace(/&(#?\w+);/g, (whole, name) => entities[name] ?? whole);

/** The name and the last line of the reason of each test that failed, from a report in JUnit's XML. */
const failuresIn = (cases: string[]) =>
  cases.flatMap((text) => {
    const message = /<failure message="([^"]*)"/.exec(text)?.[1];
    if (message === undefined) return [];
    const name = decode(/\sname="([^"]*)"/.exec(text)?.[1]).replace(/^.* > contractTest\(\) > /, '');
    return [{ name, reason: decode(message).trim().split('\n').at(-1)?.trim() ?? '' }];
  });

test.skipIf(!java)('Specmatic finds only what exceptions.yaml explains', async () => {
  const jar = path.join(path.dirname(fetchTool('specmatic', 'specmatic@2.55.1')), '../../specmatic.jar');
  const counts = exceptions.specmatic.map(() => 0);
  for (const [document, prefix] of [
    ['openapi.yaml', '/v1'],
    ['openapi.quickstart.yaml', '/quickstart'],
  ] as const) {
    const server = await startServer();
    const key = await server.firstKey();
    for (const name of ['Biscuit', 'Crumb']) await server.call(key, 'POST', '/v1/pets', { name, categoryId: 7 });
    const { headers } = await server.call(key, 'GET', '/v1/pets?limit=1');
    const cursor = /cursor=(\w+)/.exec(headers.get('link') as string)?.[1];

    const folder = path.join(server.folder, 'specmatic');
    mkdirSync(folder);
    writeFileSync(path.join(folder, 'openapi.yaml'), readFileSync(projectFolder + document));
    // Specmatic takes values from here instead of making them up.
    const known = { PARAMETERS: { QUERY: { cursor }, PATH: { petId: 1 } } };
    writeFileSync(path.join(folder, 'openapi_dictionary.yaml'), stringify(known));
    const args = [
      '-jar',
      jar,
      'test',
      'openapi.yaml',
      `--testBaseURL=${server.url}${prefix}`,
      '--junitReportDir=junit',
    ];
    // The key is in the variable named after the security scheme.
    const env = { apiKey: key, SPECMATIC_GENERATIVE_TESTS: 'true' };
    await launch('java', args, { folder, env }).end();
    const [, ...cases] = readFileSync(path.join(folder, 'junit/TEST-junit-jupiter.xml'), 'utf8').split('<testcase ');
    const failures = failuresIn(cases);
    figure(`${cases.length} tests of Specmatic, ${cases.length - failures.length} passed`);
    expect(failures.length).toBeLessThan(cases.length * 0.3);
    const unknown = failures.filter(({ name, reason }) => {
      const covering = exceptions.specmatic.findIndex(
        ({ scenario, says }) => new RegExp(scenario).test(name) && new RegExp(says).test(reason),
      );
      if (covering >= 0) counts[covering] = (counts[covering] ?? 0) + 1;
      return covering < 0;
    });
    expect(unknown).toEqual([]);
  }
  expect(exceptions.specmatic.filter(({ random }, index) => !random && counts[index] === 0)).toEqual([]);
});
