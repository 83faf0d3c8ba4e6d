/** Runs Specmatic's contract tests, with its resiliency tests, against a real server. */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { stringify } from 'yaml';
import { fetchTool } from '../support/fetched-tool.ts';
import { launch, startServer } from '../support/process.ts';

export interface Failed {
  scenario: string;
  /** The last line of the reason. */
  reason: string;
}

export interface Report {
  tests: number;
  failed: Failed[];
}

const entities: Record<string, string> = { lt: '<', gt: '>', quot: '"', apos: "'", amp: '&', '#10': '\n' };
const decode = (text: string) => text.replace(/&(#?\w+);/g, (whole, name) => entities[name] ?? whole);

/** Reads a report in JUnit's XML. */
function readReport(xml: string): Report {
  const [, ...cases] = xml.split('<testcase ');
  const failed = cases.flatMap((text): Failed[] => {
    const message = /<failure message="([^"]*)"/.exec(text)?.[1];
    if (message === undefined) return [];
    const name = decode(/\sname="([^"]*)"/.exec(text)?.[1] ?? '');
    const reason = decode(message).trim().split('\n').at(-1) ?? '';
    return [{ scenario: name.replace(/^.* > contractTest\(\) > /, ''), reason: reason.trim() }];
  });
  return { tests: cases.length, failed };
}

/** Tests a new server with two pets against the text of an OpenAPI document whose base path is `prefix`. */
export async function runSpecmatic(document: string, prefix: string): Promise<Report> {
  const jar = path.join(path.dirname(fetchTool('specmatic', 'specmatic@2.55.1')), '../../specmatic.jar');
  const server = await startServer();
  const key = await server.firstKey();
  for (const name of ['Biscuit', 'Crumb']) await server.call(key, 'POST', '/v1/pets', { name, categoryId: 7 });
  const { headers } = await server.call(key, 'GET', '/v1/pets?limit=1');
  const cursor = /cursor=(\w+)/.exec(headers.get('link') as string)?.[1];

  const folder = path.join(server.folder, 'specmatic');
  mkdirSync(folder);
  writeFileSync(path.join(folder, 'openapi.yaml'), document);
  // Specmatic takes values from here instead of making them up.
  const known = { PARAMETERS: { QUERY: { cursor }, PATH: { petId: 1 } } };
  writeFileSync(path.join(folder, 'openapi_dictionary.yaml'), stringify(known));
  const args = ['-jar', jar, 'test', 'openapi.yaml', `--testBaseURL=${server.url}${prefix}`, '--junitReportDir=junit'];
  // The key is in the variable named after the security scheme.
  const env = { apiKey: key, SPECMATIC_GENERATIVE_TESTS: 'true' };
  const { stdout } = await launch('java', args, { folder, env }).end();
  try {
    return readReport(readFileSync(path.join(folder, 'junit/TEST-junit-jupiter.xml'), 'utf8'));
  } catch (cause) {
    throw new Error(`Specmatic made no report: ${stdout.slice(-2000)}`, { cause });
  }
}
