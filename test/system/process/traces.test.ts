/** Tests that the server sends traces with the packages and settings of docs/operations.md, to a real receiver of OTLP. */
import { execFileSync } from 'node:child_process';
import { copyFileSync, mkdirSync } from 'node:fs';
import { createServer } from 'node:http';
import { text } from 'node:stream/consumers';
import { expect, test } from 'vitest';
import { startServer } from '../../support/process.ts';
import { projectFolder, read } from '../../support/project.ts';
import { listen } from '../../support/raw.ts';

const traceId = '0af7651916cd43dd8448eb211c80319c';
const parentId = 'b7ad6b7169203331';

/** Receives traces as JSON (https://opentelemetry.io/docs/specs/otlp/#otlphttp). */
async function startReceiver() {
  let received = '';
  const receiver = createServer(async (request, response) => {
    received += request.url + (await text(request));
    response.setHeader('content-type', 'application/json').end('{}');
  });
  return { url: `http://127.0.0.1:${await listen(receiver)}`, received: () => received };
}

/** Runs the command of docs/operations.md, in a folder of its own. Returns the file for `node --import`. Throws if npm cannot download. */
function install() {
  const folder = `${projectFolder}node_modules/.cache/animal-store/opentelemetry`;
  mkdirSync(folder, { recursive: true });
  const documented = read('docs/operations.md').replaceAll('\\\n', '');
  const [, options = ''] = /^npm install --prefix deploy\/opentelemetry (.+)$/m.exec(documented) ?? [];
  const args = ['install', '--prefix', folder, ...options.trim().split(/\s+/), '--prefer-offline'];
  execFileSync('npm', args, { stdio: ['ignore', 'ignore', 'pipe'], timeout: 120_000 });
  const file = `${folder}/register.mjs`;
  copyFileSync(`${projectFolder}deploy/opentelemetry/register.mjs`, file);
  return file;
}

test('a server sends a span of each request, without keys and names', async ({ skip }) => {
  let file: string;
  try {
    file = install();
  } catch (error) {
    if (process.env.CI) throw error;
    return skip('npm cannot download the packages');
  }
  const { url, received } = await startReceiver();
  const server = await startServer({
    env: {
      NODE_OPTIONS: `--import ${file}`,
      OTEL_EXPORTER_OTLP_ENDPOINT: url,
      OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json',
      TRUST_PROXY: '127.0.0.1',
    },
  });
  const key = await server.firstKey();
  const traceparent = `00-${traceId}-${parentId}-01`;
  const forwarded = { 'x-forwarded-for': '203.0.113.77, 203.0.113.78:5001' };
  await server.call(key, 'GET', '/v1/pets?status=sold', undefined, { traceparent, ...forwarded });
  await server.add({ name: 'Rumpelstilzchen', categoryId: 1 });
  await fetch(`${server.url}/account/links/a-secret-token`);
  await fetch(`${server.url}/nowhere/Rumpelstilzchen?key=${key}`);
  await fetch(`${server.opsUrl()}/readyz`);
  // The last spans are sent at the end.
  await server.stop();

  const requests = () => [...received().matchAll(/"name":"((?:GET|POST)[^"]*)"/g)].map(([, name]) => name);
  expect(requests()).toEqual(['GET /v1/pets', 'POST /v1/pets', 'GET /account/links/:token', 'GET']);
  expect(received()).toMatch(new RegExp(`^/v1/traces.*"traceId":"${traceId}"`));
  expect(received()).toContain(`"parentSpanId":"${parentId}"`);
  for (const secret of [key, 'Rumpelstilzchen', 'a-secret-token', '203.0.113.77'])
    expect(received()).not.toContain(secret);
  expect(received()).toContain('"203.0.113.78"');
  // The log has the same trace.
  expect(server.stdout()).toContain(`"traceId":"${traceId}"`);
});
