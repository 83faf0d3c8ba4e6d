/** Tests a Python client that OpenAPI Generator makes from openapi.yaml, against a real server. */
import { execFileSync } from 'node:child_process';
import path from 'node:path';
import { expect, test } from 'vitest';
import { temporaryFolder } from '../support/app.ts';
import { fetchTool, findWorking } from '../support/fetched-tool.ts';
import { launch, startServer } from '../support/process.ts';
import { projectFolder } from '../support/project.ts';
import { figure } from '../support/tier.ts';

const java = findWorking(['java', '-version']);
const modules = 'import certifi, dateutil, six, urllib3';
const python = findWorking(['python3', '-c', modules], ['/usr/bin/python3', '-c', modules]);
const missing = [!java && 'Java (openjdk-17-jre-headless)', !python && 'python3-{certifi,dateutil,six,urllib3}'];
const ready = java && python;
if (!ready) figure(`skipped: the Python client needs ${missing.filter(Boolean).join(' and ')}`);

/** Generates the client with the last OpenAPI Generator that npm has as a whole. It reads OpenAPI 3.0. */
function generate(): string {
  const folder = temporaryFolder();
  const old = path.join(folder, 'openapi-3.0.yaml');
  const convert = fetchTool('openapi-down-convert', '@apiture/openapi-down-convert@0.14.2');
  execFileSync(process.execPath, [convert, '--input', `${projectFolder}openapi.yaml`, '--output', old]);
  const generator = fetchTool('openapi-generator', '@openapitools/openapi-generator-cli@1.0.18-5.0.0-beta2');
  const jar = path.join(path.dirname(generator), 'openapi-generator.jar');
  const options = ['-g', 'python', '-i', old, '-o', folder, '--additional-properties=packageName=animal_store'];
  execFileSync('java', ['-jar', jar, 'generate', ...options], { stdio: 'ignore' });
  return folder;
}

test.skipIf(!ready)('a generated Python client adds, lists and fetches pets, and reads errors', async () => {
  const folder = generate();
  const server = await startServer();
  const args = [`${import.meta.dirname}/python-client.py`, folder, `${server.url}/v1`, await server.firstKey()];
  const { code, stdout, stderr } = await launch(python as string, args, {}).end();
  expect(code, stderr).toBe(0);
  expect(JSON.parse(stdout)).toEqual({
    before: [],
    added: [1, 2, 3],
    status: 'available',
    listed: [
      [1, 'Pet 7', '7'],
      [2, 'Pet 9007199254740993', '9007199254740993'],
      [3, 'Pet 9223372036854775807', '9223372036854775807'],
    ],
    fetched: '9007199254740993',
    wrongKey: [401, 'invalid_api_key'],
    wrongCursor: [400, 'invalid_cursor'],
    missing: [404, 'pet_not_found'],
    orders: [501, 'not_implemented'],
  });
});
