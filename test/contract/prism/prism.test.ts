/** Validates all traffic of the tests against the OpenAPI documents, with the Prism validation proxy. */
import { readFileSync } from 'node:fs';
import { beforeAll, expect, test } from 'vitest';
import { parse } from 'yaml';
import type { Exchange } from '../../support/exchanges.ts';
import { projectFolder } from '../../support/project.ts';
import { figure } from '../../support/tier.ts';
import { faultsOf, requestFaultsOf } from './faults.ts';
import { sideBySide, startPrism } from './prism.ts';
import { recordTraffic } from './traffic.ts';
import { accepted, isUnforwarded, validate } from './verdicts.ts';

const documents = [
  { name: 'openapi.yaml', prefix: '/v1' },
  { name: 'openapi.quickstart.yaml', prefix: '/quickstart' },
].map((document) => ({
  ...document,
  paths: parse(readFileSync(projectFolder + document.name, 'utf8')).paths as Record<string, object>,
}));

let exchanges: Exchange[];

beforeAll(async () => {
  exchanges = await recordTraffic();
});

/** Method and path template of the operation in a document; undefined if there is none. */
function operationOf({ prefix, paths }: (typeof documents)[number], { method, target }: Exchange): string | undefined {
  const pathname = target.replace(/\?.*$/s, '');
  const template = Object.keys(paths).find((path) =>
    new RegExp(`^${prefix}${path.replace(/\{\w+\}/, '[^/]+')}$`).test(pathname),
  );
  return template !== undefined && method.toLowerCase() in (paths[template] as object)
    ? `${method} ${prefix}${template}`
    : undefined;
}

const within = ({ prefix }: (typeof documents)[number]) =>
  exchanges.filter(({ target }) => target.startsWith(`${prefix}/`));

/** Runs `act` for several exchanges at a time, in order. */
async function forEach(all: Exchange[], act: (exchange: Exchange) => Promise<unknown>): Promise<void> {
  const queue = all.values();
  const work = async () => {
    for (const exchange of queue) await act(exchange);
  };
  await Promise.all(Array.from({ length: sideBySide }, work));
}

const listed = (counts: Map<string, number>) =>
  [...counts].map(([name, count]) => `${count.toLocaleString('en')} ${name}`).join(', ');

test('no response and no accepted request violates the documents', async () => {
  const left = new Map<string, number>();
  const allowances = new Map<string, number>();
  const violations = new Map<string, number>();
  const add = (counts: Map<string, number>, name: string) => counts.set(name, (counts.get(name) ?? 0) + 1);
  let [answers, requests] = [0, 0];
  for (const document of documents) {
    const prism = await startPrism(document.name, document.prefix);
    await forEach(within(document), async (exchange) => {
      const operation = operationOf(document, exchange);
      // The documents describe HEAD, OPTIONS and 405 only as text.
      if (operation === undefined) return add(left, 'for no operation of the documents');
      if (isUnforwarded(exchange)) return add(left, '501, which Prism replaces');
      const findings = await validate(prism, exchange);
      answers++;
      if (accepted(exchange)) requests++;
      for (const allowance of findings.allowances) add(allowances, allowance);
      for (const { location, message } of [...findings.answer, ...findings.request])
        add(violations, `${operation} ${exchange.answer.status}: ${location.join('.')}: ${message}`);
    });
  }
  const outside = exchanges.length - documents.flatMap(within).length;
  if (outside > 0) left.set('outside both base paths', outside);
  const found = [...violations.values()].reduce((sum, count) => sum + count, 0);
  figure(
    `${answers.toLocaleString('en')} responses through Prism, ${requests.toLocaleString('en')} of them to accepted requests, ` +
      `${found} violations; left out: ${listed(left)}; with allowances: ${listed(allowances)}`,
  );
  expect(violations).toEqual(new Map());
  expect(requests).toBeGreaterThan(1000);
});

test('Prism detects faults in every kind of response and in accepted requests', async () => {
  const missed: string[] = [];
  let kinds = 0;
  let faults = 0;
  for (const document of documents) {
    const prism = await startPrism(document.name, document.prefix);
    const seen = new Map<string, Exchange>();
    for (const exchange of within(document)) {
      const operation = operationOf(document, exchange);
      // An empty list has no members that could be wrong.
      if (operation === undefined || isUnforwarded(exchange) || exchange.answer.text === '[]') continue;
      const kind = `${operation} ${exchange.answer.status}`;
      if (!seen.has(kind)) seen.set(kind, exchange);
    }
    for (const [kind, exchange] of seen) {
      kinds++;
      for (const [fault, answer] of faultsOf(exchange.answer)) {
        faults++;
        const findings = await validate(prism, { ...exchange, answer });
        if (findings.answer.length === 0) missed.push(`${kind}: ${fault}`);
      }
      if (!accepted(exchange)) continue;
      for (const [fault, wrong] of requestFaultsOf(exchange)) {
        faults++;
        if ((await validate(prism, wrong)).request.length === 0) missed.push(`${kind}: ${fault}`);
      }
    }
  }
  figure(`${faults} faults in ${kinds} kinds of responses and requests, ${missed.length} missed by Prism`);
  expect(missed).toEqual([]);
});
