/** Tests that the server sends traces with the packages and settings of docs/operations.md, to a real receiver of OTLP. */
import { execFileSync } from 'node:child_process';
import { copyFileSync, mkdirSync, readFileSync } from 'node:fs';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { json } from 'node:stream/consumers';
import { expect, onTestFinished, test } from 'vitest';
import { startServer } from '../../support/process.ts';
import { projectFolder } from '../../support/project.ts';
import { patientMs } from '../../support/tier.ts';

const traceId = '0af7651916cd43dd8448eb211c80319c';
const parentId = 'b7ad6b7169203331';

interface Span {
  service: string;
  name: string;
  traceId: string;
  spanId: string;
  parentSpanId?: string;
  attributes: Record<string, unknown>;
}

type Attributes = { key: string; value: Record<string, unknown> }[];
interface Traces {
  resourceSpans: {
    resource: { attributes: Attributes };
    scopeSpans: { spans: (Omit<Span, 'service' | 'attributes'> & { attributes: Attributes })[] }[];
  }[];
}

const valuesOf = (attributes: Attributes) =>
  Object.fromEntries(attributes.map(({ key, value }) => [key, Object.values(value)[0]]));

/** Receives traces as JSON (https://opentelemetry.io/docs/specs/otlp/#otlphttp). */
async function startReceiver(): Promise<{ url: string; spans: Span[]; text: () => string }> {
  const spans: Span[] = [];
  let text = '';
  async function take(request: IncomingMessage): Promise<void> {
    expect(request.url).toBe('/v1/traces');
    const traces = (await json(request)) as Traces;
    text += JSON.stringify(traces);
    for (const { resource, scopeSpans } of traces.resourceSpans) {
      const service = String(valuesOf(resource.attributes)['service.name']);
      for (const span of scopeSpans.flatMap((scope) => scope.spans))
        spans.push({ ...span, service, attributes: valuesOf(span.attributes) });
    }
  }
  const receiver = createServer((request, response) => {
    take(request).then(
      () => response.setHeader('content-type', 'application/json').end('{}'),
      (error) => response.writeHead(500).end(String(error)),
    );
  });
  await new Promise<void>((resolve) => receiver.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => void receiver.close());
  return { url: `http://127.0.0.1:${(receiver.address() as AddressInfo).port}`, spans, text: () => text };
}

/** Runs the command of docs/operations.md, in a folder of its own. Returns the file for `node --import`. Throws if npm cannot download. */
function install(): string {
  const folder = path.join(projectFolder, 'node_modules/.cache/animal-store/opentelemetry');
  mkdirSync(folder, { recursive: true });
  const documented = readFileSync(`${projectFolder}docs/operations.md`, 'utf8').replaceAll('\\\n', '');
  const [, options = ''] = /^npm install --prefix deploy\/opentelemetry (.+)$/m.exec(documented) ?? [];
  expect(options).toContain('@opentelemetry/');
  const args = ['install', '--prefix', folder, ...options.trim().split(/\s+/), '--prefer-offline'];
  execFileSync('npm', args, { stdio: ['ignore', 'ignore', 'pipe'], timeout: 120_000 });
  const file = path.join(folder, 'register.mjs');
  copyFileSync(`${projectFolder}deploy/opentelemetry/register.mjs`, file);
  return file;
}

test('a server sends a span of each request, with its method, route and status, and without keys and names', {
  timeout: patientMs,
}, async ({ skip }) => {
  let file: string;
  try {
    file = install();
  } catch (error) {
    if (process.env.CI) throw error;
    return skip('npm cannot download the packages');
  }
  const { url, spans, text } = await startReceiver();
  const server = await startServer({
    env: {
      NODE_OPTIONS: `--import ${file}`,
      OTEL_SERVICE_NAME: 'animals',
      OTEL_EXPORTER_OTLP_ENDPOINT: url,
      OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json',
      OTEL_BSP_SCHEDULE_DELAY: '100',
    },
  });
  const key = await server.firstKey();
  const traceparent = `00-${traceId}-${parentId}-01`;
  expect((await server.call(key, 'GET', '/v1/pets?status=sold', undefined, { traceparent })).status).toBe(200);
  const pet = { name: 'Rumpelstilzchen', categoryId: 1 };
  expect((await server.call(key, 'POST', '/v1/pets', pet)).status).toBe(201);
  await fetch(`${server.url}/account/links/a-secret-token`);
  await fetch(`${server.url}/nowhere/Rumpelstilzchen?key=${key}`);
  await fetch(`${server.opsUrl()}/readyz`);

  const requests = () => spans.filter(({ attributes }) => 'http.request.method' in attributes);
  await expect.poll(() => requests().length, { timeout: 10_000 }).toBeGreaterThanOrEqual(4);
  expect(
    requests().map(({ service, name, attributes }) => [service, name, attributes['http.response.status_code']]),
  ).toEqual([
    ['animals', 'GET /v1/pets', 200],
    ['animals', 'POST /v1/pets', 201],
    ['animals', 'GET /account/links/:token', 404],
    ['animals', 'GET', 404],
  ]);
  const [list] = requests();
  expect(list).toMatchObject({ traceId, parentSpanId: parentId });
  expect(list?.attributes).toMatchObject({ 'http.request.method': 'GET', 'http.route': '/v1/pets' });
  for (const secret of [key, 'Rumpelstilzchen', 'a-secret-token']) expect(text()).not.toContain(secret);
  // The log has the same trace.
  expect(server.stdout()).toContain(`"traceId":"${traceId}"`);
  expect((await server.end('SIGTERM')).code).toBe(0);
});
