/** The OpenAPI documents and the whole traffic of the tests, before the Prism validation proxy. */
import { readFileSync } from 'node:fs';
import { beforeAll, expect, test } from 'vitest';
import { parse } from 'yaml';
import type { Exchange } from '../support/exchanges.ts';
import { projectFolder } from '../support/project.ts';
import { figure } from '../support/tier.ts';
import { faultsOf, requestFaultsOf } from './faults.ts';
import { sideBySide, startPrism } from './prism.ts';
import { recordTraffic } from './traffic.ts';
import { accepted, isMocked, judge } from './verdicts.ts';

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

/** Method and path template of a document, or undefined where there is no such operation. */
function operationOf({ prefix, paths }: (typeof documents)[number], { method, target }: Exchange): string | undefined {
  const pathname = target.replace(/\?.*$/s, '');
  const template = Object.keys(paths).find((path) =>
    new RegExp(`^${prefix}${path.replace(/\{\w+\}/, '[^/]*')}$`).test(pathname),
  );
  return template !== undefined && method.toLowerCase() in (paths[template] as object)
    ? `${method} ${prefix}${template}`
    : undefined;
}

const within = ({ prefix }: (typeof documents)[number]) =>
  exchanges.filter(({ target }) => target.startsWith(`${prefix}/`));

/** Several at a time, in order of their beginning. */
async function forEach(all: Exchange[], act: (exchange: Exchange) => Promise<unknown>): Promise<void> {
  const queue = all.values();
  const work = async () => {
    for (const exchange of queue) await act(exchange);
  };
  await Promise.all(Array.from({ length: sideBySide }, work));
}

const listed = (counts: Map<string, number>) =>
  [...counts].map(([name, count]) => `${count.toLocaleString('en')} ${name}`).join(', ');

test('no answer violates the documents, and no request that the server accepted', async () => {
  const left = new Map<string, number>();
  const allowances = new Map<string, number>();
  const violations = new Map<string, number>();
  const add = (counts: Map<string, number>, name: string) => counts.set(name, (counts.get(name) ?? 0) + 1);
  let [answers, requests] = [0, 0];
  for (const document of documents) {
    const prism = await startPrism(document.name, document.prefix);
    await forEach(within(document), async (exchange) => {
      const operation = operationOf(document, exchange);
      // The documents speak of HEAD, OPTIONS and 405 in words alone.
      if (operation === undefined) return add(left, 'on no operation of the documents');
      if (isMocked(exchange)) return add(left, '501, in place of which Prism sends an example');
      const judgement = await judge(prism, exchange);
      answers++;
      if (accepted(exchange)) requests++;
      for (const allowance of judgement.allowances) add(allowances, allowance);
      for (const { location, message } of [...judgement.answer, ...judgement.request])
        add(violations, `${operation} ${exchange.answer.status}: ${location.join('.')}: ${message}`);
    });
  }
  const beside = exchanges.length - documents.flatMap(within).length;
  if (beside > 0) left.set('beside both base paths', beside);
  const found = [...violations.values()].reduce((sum, count) => sum + count, 0);
  figure(
    `${answers.toLocaleString('en')} answers through Prism, ${requests.toLocaleString('en')} of them to accepted requests, ` +
      `${found} violations; left out: ${listed(left)}; with allowances: ${listed(allowances)}`,
  );
  expect(violations).toEqual(new Map());
  expect(requests).toBeGreaterThan(1000);
});

test('Prism notices what is wrong in every kind of answer, and in accepted requests', async () => {
  const missed: string[] = [];
  let kinds = 0;
  let faults = 0;
  for (const document of documents) {
    const prism = await startPrism(document.name, document.prefix);
    const seen = new Map<string, Exchange>();
    for (const exchange of within(document)) {
      const operation = operationOf(document, exchange);
      // Nothing is in an empty list that could be wrong.
      if (operation === undefined || isMocked(exchange) || exchange.answer.text === '[]') continue;
      const kind = `${operation} ${exchange.answer.status}`;
      if (!seen.has(kind)) seen.set(kind, exchange);
    }
    for (const [kind, exchange] of seen) {
      kinds++;
      for (const [fault, answer] of faultsOf(exchange.answer)) {
        faults++;
        const judgement = await judge(prism, { ...exchange, answer });
        if (judgement.answer.length === 0) missed.push(`${kind}: ${fault}`);
      }
      if (!accepted(exchange)) continue;
      for (const [fault, wrong] of requestFaultsOf(exchange)) {
        faults++;
        if ((await judge(prism, wrong)).request.length === 0) missed.push(`${kind}: ${fault}`);
      }
    }
  }
  figure(`${faults} faults planted in ${kinds} kinds of answers and their requests, ${missed.length} missed by Prism`);
  expect(missed).toEqual([]);
});
