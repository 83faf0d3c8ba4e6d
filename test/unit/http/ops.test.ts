/** The routes of the ops port. test/system/process/ops.test.ts asks that of a whole server. */
import type { AddressInfo } from 'node:net';
import { pino } from 'pino';
import { expect, onTestFinished, test } from 'vitest';
import { buildOpsServer } from '../../../src/ops/routes.ts';
import { converse } from '../../support/raw.ts';

test('liveness, readiness and metrics; 405 for another method, 404 for another path, 400 for another host, whatever the body', async () => {
  const ops = buildOpsServer({
    release: { version: '1.2.3', revision: 'abcdef0' },
    obstacle: () => undefined,
    metrics: async () => 'up 1\n',
    servesHost: (host) => host === 'localhost',
    logger: pino({ level: 'silent' }),
  });
  await ops.listen({ host: '127.0.0.1', port: 0 });
  onTestFinished(() => ops.close());
  const { port } = ops.server.address() as AddressInfo;
  const rows: [line: string, body: string, status: number, text: string, host?: string][] = [
    ['GET /livez', '', 200, '{"status":"live"}'],
    ['GET /readyz', '', 200, '{"status":"ready","version":"1.2.3","revision":"abcdef0"}'],
    ['GET /metrics', '', 200, 'up 1\n'],
    ['POST /livez', '{', 405, 'method_not_allowed'],
    ['PROPFIND /livez', '', 405, 'method_not_allowed'],
    ['POST /nowhere', '{', 404, 'route_not_found'],
    ['GET /livez', '', 400, 'bad_request', 'other'],
    ['GET /%zz', '', 400, 'invalid_url'],
  ];
  for (const [line, body, status, text, host = 'localhost'] of rows) {
    const headers = `Host: ${host}\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n`;
    const [answer] = await converse(port, [`${line} HTTP/1.1\r\n${headers}\r\n${body}`]);
    expect([answer?.status, answer?.text, answer?.headers.allow], line).toEqual([
      status,
      status === 200 ? text : expect.stringContaining(`"code":"${text}"`),
      status === 405 ? 'GET, HEAD' : undefined,
    ]);
    const always = { 'x-request-id': expect.any(String), 'cache-control': 'no-store' };
    expect(answer?.headers, line).toMatchObject(
      line === 'GET /metrics' ? { 'content-type': 'text/plain; version=0.0.4; charset=utf-8' } : always,
    );
  }
});

test('the log has the cause if the metrics cannot be read', async () => {
  const cause = new Error('EMFILE: too many open files');
  const lines: object[] = [];
  const ops = buildOpsServer({
    release: { version: '1.2.3', revision: undefined },
    metrics: () => Promise.reject(cause),
    obstacle: () => undefined,
    servesHost: undefined,
    logger: pino({}, { write: (line) => void lines.push(JSON.parse(line)) }),
  });
  const url = await ops.listen({ host: '127.0.0.1', port: 0 });
  onTestFinished(() => ops.close());
  const { status, headers } = await fetch(`${url}/metrics`);
  expect(status).toBe(500);
  await fetch(`${url}/nowhere`);
  const err = { message: cause.message, stack: expect.any(String) };
  expect(lines.slice(1)).toMatchObject([{ reqId: headers.get('x-request-id'), err, msg: 'internal_error' }]);
});
