/** Tests the logs of deploy/nginx.conf with a real nginx: they have what operators need, and never the path of a one-time link. */
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { connect as connectHttp2 } from 'node:http2';
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { newToken } from '../../../src/core/people.ts';
import { name, startNginx, startNginxAlone } from '../../support/nginx.ts';
import { startServer } from '../../support/process.ts';

type Nginx = Awaited<ReturnType<typeof startNginx>>;

const missing = ['nginx', 'openssl'].filter((tool) => spawnSync(tool, ['-h']).error);

beforeEach(({ skip }) => {
  if (missing.length > 0) skip(`not installed: ${missing.join(', ')}`);
});

test('a request is in the access log, and an API that does not answer is in the error log', async () => {
  const { call, accessLog, errorLog } = await startNginxAlone();
  await call('GET', '/account/sign-in?a=b', { 'user-agent': 'otter' });
  await call('GET', '/v1/pets?limit=1');
  const line = /^127\.0\.0\.1 - - \[.*\] "GET \/account\/sign-in\?a=b HTTP\/1\.1" 503 \d+ "-" "otter" [\d.]+ 502$/m;
  // nginx may write a line after its response.
  await expect.poll(accessLog, { timeout: 10_000 }).toContain('"GET /v1/pets?limit=1 HTTP/1.1" 503');
  expect(accessLog()).toMatch(line);
  expect(errorLog()).toMatch(/connect\(\) failed .* request: "GET \/v1\/pets\?limit=1 HTTP\/1\.1"/);
});

describe('no log has the path of a one-time link', () => {
  const path = '/account/links/TOKEN';
  const rest = `Host: ${name}\r\nConnection: close\r\n`;
  const get = (target: string, headers = rest, version = 'HTTP/1.1') => `GET ${target} ${version}\r\n${headers}\r\n`;

  /** Every way to send a link in a request, also in requests that nginx rejects at different moments. */
  const requests: Record<string, string> = {
    GET: get(path),
    POST: get(path, `${rest}Content-Length: 1\r\n`).replace('GET', 'POST').concat('x'),
    'a long body': get(path, `${rest}Content-Length: 999999\r\n`).replace('GET', 'POST'),
    'a body that is cut': get(path, `Host: ${name}\r\nContent-Length: 9\r\n`).replace('GET', 'POST'),
    'another method': get(path).replace('GET', 'TRACE'),
    'percent-encoding': get(path.replace('links', 'l%69nks')),
    'absolute form': get(`https://${name}${path}`),
    'another host': get(path, rest.replace(name, 'other.example.com')),
    'no host': get(path, ''),
    'a bad header': get(path, `${rest}b@d\x01: x\r\n`),
    'a long URL': get(`${path}?${'x'.repeat(70_000)}`),
    'headers without an end': get(path).slice(0, -2),
    'a Referer': get('/docs/icon.svg', `${rest}Referer: https://${name}${path}\r\n`),
  };

  async function sendOverHttp2({ https, ca }: Nginx, token: string): Promise<void> {
    const session = connectHttp2(`https://127.0.0.1:${https}`, { ca, servername: name });
    onTestFinished(() => session.destroy());
    await once(session.request({ ':path': path.replace('TOKEN', token), ':authority': name }), 'response');
  }

  /** Sends each request with and without TLS, and each with a token of its own. Expects that nginx logs the requests, but no token. */
  async function expectNoToken(nginx: Nginx): Promise<void> {
    const tokens = new Map([[newToken().token, 'HTTP/2']]);
    const [overHttp2 = ''] = tokens.keys();
    const sent = Object.entries(requests).flatMap(([what, text]) =>
      [nginx.raw, nginx.rawHttp].map((send) => {
        const { token } = newToken();
        tokens.set(token, `${what}, ${send === nginx.raw ? 'with' : 'without'} TLS`);
        // nginx resets a connection that times out.
        return send(text.replace('TOKEN', token)).catch(() => undefined);
      }),
    );
    await Promise.all([...sent, sendOverHttp2(nginx, overHttp2)]);
    const lines = () => nginx.accessLog().split('\n').length - 1;
    await expect.poll(lines, { timeout: 10_000 }).toBe(tokens.size);
    const written = nginx.written();
    expect([...tokens].filter(([token]) => written.includes(token)).map(([, what]) => what)).toEqual([]);
  }

  test('if the server answers', async () => {
    const server = await startServer({ env: { BASE_URL: `https://${name}/v1`, TRUST_PROXY: '127.0.0.1' } });
    await expectNoToken(await startNginx({ production: server.port, staging: server.port }));
  });

  test('if the server is down', async () => expectNoToken(await startNginxAlone()));
});
