/** The routes of the ops port. test/full/server/ops.test.ts asks that of a whole server. */
import type { AddressInfo } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { buildOpsServer, type OpsOptions } from '../../../src/ops/routes.ts';
import { converse } from '../../support/raw.ts';

const release = { version: '1.2.3', revision: 'abcdef0' };

async function start(options: Partial<OpsOptions> = {}) {
  const metrics = async () => 'up 1\n';
  const given = { release, ready: () => true, metrics, metricsType: 'text/plain', servesHost: undefined, ...options };
  const ops = buildOpsServer(given);
  await ops.listen({ host: '127.0.0.1', port: 0 });
  onTestFinished(() => ops.close());
  const { port } = ops.server.address() as AddressInfo;
  return async (line: string, body = '', more = '') => {
    const headers = `Host: localhost\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n${more}`;
    const [answer] = await converse(port, [`${line} HTTP/1.1\r\n${headers}\r\n${body}`]);
    return { status: answer?.status, text: answer?.text ?? '', headers: answer?.headers ?? {} };
  };
}

test('liveness, readiness and metrics', async () => {
  const ask = await start();
  expect(await ask('GET /livez')).toMatchObject({ status: 200, text: '{"status":"live"}' });
  expect(JSON.parse((await ask('GET /readyz')).text)).toEqual({ status: 'ready', ...release });
  expect(await ask('GET /metrics')).toMatchObject({ status: 200, text: 'up 1\n' });
  for (const path of ['/livez', '/nowhere'])
    expect((await ask(`GET ${path}`)).headers).toMatchObject({
      'cache-control': 'no-store',
      'x-request-id': expect.any(String),
    });
});

test('405 for any other method, and 404 for an unknown path, whatever the body', async () => {
  const ask = await start();
  const cases = [
    ['POST /livez', '{', 405],
    ['POST /readyz?x=1', '{}', 405],
    ['PUT /metrics', 'x', 405],
    ['DELETE /livez', '', 405],
    ['PROPFIND /livez', '', 405],
    ['POST /nowhere', '{', 404],
    ['PROPFIND /', '', 404],
  ] as const;
  for (const [line, body, status] of cases) {
    const answer = await ask(line, body);
    expect([line, JSON.parse(answer.text).status]).toEqual([line, status]);
    expect(answer).toMatchObject({ status, headers: status === 405 ? { allow: 'GET, HEAD' } : {} });
  }
});

test('400 for a host that is not served, and for a URL with a fragment', async () => {
  const ask = await start({ servesHost: (host) => host !== 'localhost' });
  expect(JSON.parse((await ask('GET /livez')).text)).toMatchObject({ code: 'bad_request', status: 400 });
  expect(JSON.parse((await ask('GET /livez#x')).text)).toMatchObject({ code: 'invalid_url', status: 400 });
});
