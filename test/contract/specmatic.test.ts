/** Tests the server and the OpenAPI documents with Specmatic, positive and negative requests alike. */
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { parse, stringify } from 'yaml';
import { findWorking } from '../support/fetched-tool.ts';
import { projectFolder } from '../support/project.ts';
import { figure } from '../support/tier.ts';
import { exceptions } from './exceptions.ts';
import { type Failed, runSpecmatic } from './specmatic.ts';

const read = (name: string) => readFileSync(projectFolder + name, 'utf8');
const java = findWorking(['java', '-version']);
if (!java) figure('skipped: Specmatic needs Java (openjdk-17-jre-headless)');

const covers = (exception: (typeof exceptions.specmatic)[number], { scenario, reason }: Failed) =>
  new RegExp(exception.scenario).test(scenario) && new RegExp(exception.says).test(reason);

test.skipIf(!java)('Specmatic finds only what exceptions.yaml explains', async () => {
  const reports = [
    await runSpecmatic(read('openapi.yaml'), '/v1'),
    await runSpecmatic(read('openapi.quickstart.yaml'), '/quickstart'),
  ];
  const failed = reports.flatMap((report) => report.failed);
  const counts = exceptions.specmatic.map((one) => failed.filter((failure) => covers(one, failure)).length);
  for (const { tests, failed } of reports) figure(`${tests} tests of Specmatic, ${tests - failed.length} passed`);
  figure(`failures per exception: ${counts.join(', ')}`);
  expect(failed.filter((failure) => !exceptions.specmatic.some((one) => covers(one, failure)))).toEqual([]);
  expect(exceptions.specmatic.filter(({ random }, index) => !random && counts[index] === 0)).toEqual([]);
  for (const { tests, failed } of reports) expect(failed.length).toBeLessThan(tests * 0.3);
});

test.skipIf(!java)('Specmatic detects a response that lacks a required member', async () => {
  // Without the examples, which would not fit the changed schema.
  const document = JSON.parse(JSON.stringify(parse(read('openapi.quickstart.yaml'))), (name, value) =>
    name === 'examples' ? undefined : value,
  );
  const { required, properties } = document.components.schemas.Message;
  required.push('colour');
  properties.colour = { type: 'string' };
  const { failed } = await runSpecmatic(stringify(document), '/quickstart');
  expect(failed.map(({ scenario }) => scenario)).toContainEqual(expect.stringMatching(/^\+ve .*-> 202/));
});
