/** Tests deploy/nginx.conf and deploy/nginx-main.conf under attack: a client with many connections can only slow itself. */
import { createServer, type RequestListener } from 'node:http';
import { beforeEach, expect, onTestFinished, test } from 'vitest';
import { missingNginx, name, startNginx } from '../../support/nginx.ts';
import { listen } from '../../support/raw.ts';

beforeEach(({ skip }) => {
  if (missingNginx) skip(missingNginx);
});

/** Starts nginx in front of a server that responds in this way. */
async function startBefore(listener: RequestListener, inHttp = '') {
  const upstream = createServer(listener);
  onTestFinished(() => upstream.closeAllConnections());
  return startNginx(await listen(upstream), inHttp);
}

const refusal = /^HTTP\/1\.1 429 [\s\S]*\r\nRetry-After: 1\r\n[\s\S]*"code":"rate_limited"/;

test.each([
  ['a /64 network with zeros', (at: number) => `2001:db8::${at + 1}:0:0:1`, '2001:db8:0:1::1'],
  ['an IPv4 address on an IPv6 socket', (_: number) => '::ffff:192.0.2.1', '::ffff:192.0.2.2'],
])('%s is one client, which may have 100 requests at once', async (_what, address, other) => {
  let waiting = 0;
  const gate = Promise.withResolvers<void>();
  const { raw } = await startBefore(async (_request, response) => {
    waiting += 1;
    await gate.promise;
    response.end();
  }, 'set_real_ip_from 127.0.0.1; real_ip_header X-Address;');
  const ask = (from: string) =>
    raw(`GET / HTTP/1.1\r\nHost: ${name}\r\nX-Address: ${from}\r\nConnection: close\r\n\r\n`);
  const held = Array.from(Array(100), (_, at) => ask(address(at)));
  await expect.poll(() => waiting).toBe(100);
  expect(await ask(address(100))).toMatch(refusal);
  held.push(ask(other));
  await expect.poll(() => waiting).toBe(101);
  gate.resolve();
  for (const answer of await Promise.all(held)) expect(answer).toMatch(/^HTTP\/1\.1 200 /);
});

test('an address may send 500 requests a second, after the first 1,000, and others theirs', async () => {
  const { raw } = await startBefore((_request, response) => void response.end());
  const get = `GET / HTTP/1.1\r\nHost: ${name}\r\n\r\n`;
  const last = get.replace('\r\n\r\n', '\r\nConnection: close\r\n\r\n');
  // A connection serves 1,000 requests.
  const ask = () => raw(get.repeat(900) + last, '127.0.0.9');
  const begun = performance.now();
  const answers = (await Promise.all([ask(), ask(), ask(), ask()])).join('');
  const allowed = 1001 + ((performance.now() - begun) / 1000) * 500;
  const served = answers.split('HTTP/1.1 200 ').length - 1;
  expect(served).toBeGreaterThanOrEqual(1000);
  expect(served).toBeLessThanOrEqual(allowed);
  expect(answers.slice(answers.indexOf('HTTP/1.1 429 '))).toMatch(refusal);
  expect(await raw(last, '127.0.0.8')).toMatch(/^HTTP\/1\.1 200 /);
});
