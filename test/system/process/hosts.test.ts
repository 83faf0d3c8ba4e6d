/** Tests which hosts requests may name, on both ports: DNS rebinding must not let a page of another site use a server on this machine. */
import { expect, test } from 'vitest';
import { runCli, startServer, withScript } from '../../support/process.ts';
import { converse } from '../../support/raw.ts';

// Every form of a host is in unit/core/parts.test.ts.
const foreign = ['evil.example:3000', 'localhost.evil.example', ''];
/** As on a machine without IPv6. */
const withoutIPv6 = `import net from 'node:net';
const { listen } = net.Server.prototype;
net.Server.prototype.listen = function (options, ...more) {
  if (options.host !== '::') return listen.call(this, options, ...more);
  process.nextTick(() => this.emit('error', Object.assign(new Error('EAFNOSUPPORT'), { code: 'EAFNOSUPPORT' })));
  return this;
};`;

test('HOST=:: serves IPv4 and IPv6, and without IPv6 IPv4 alone', async () => {
  const env = { HOST: '::', OPS_HOST: '::' };
  const both = await startServer({ env });
  for (const host of ['127.0.0.1', '[::1]'])
    expect((await fetch(`http://${host}:${both.port}/openapi.json`)).status, host).toBe(200);
  const alone = await startServer({ env: { ...env, ...withScript(withoutIPv6) } });
  expect((await fetch(`http://127.0.0.1:${alone.port}/openapi.json`)).status).toBe(200);
  await expect(fetch(`http://[::1]:${alone.port}/`)).rejects.toThrow();
});

const elsewhere = { HOST: '0.0.0.0', OPS_HOST: '0.0.0.0' };

test.for<[env: Record<string, string>, served: string[], refused: string[]]>([
  [
    { BASE_URL: 'https://Animals.example.com:8443/v1', ALLOWED_HOSTS: 'Proxy_1' },
    ['animals.example.com', 'proxy_1:9'],
    [...foreign, 'www.animals.example.com'],
  ],
  [elsewhere, foreign, []],
  [{ ...elsewhere, ALLOWED_HOSTS: 'animals.internal' }, ['animals.internal:80'], foreign],
])('with %j, both ports serve localhost, addresses and %j, and not %j', async ([env, served, refused]) => {
  const server = await startServer({ env });
  const expected = new Map<string, number>([
    ...['LocalHost:1', '[::1]:80', '192.0.2.1', ...served].map((host) => [host, 200] as const),
    ...refused.map((host) => [host, 400] as const),
  ]);
  const ports = { '/openapi.json': server.port, '/livez': Number(new URL(server.opsUrl()).port) };
  for (const [path, port] of Object.entries(ports)) {
    const asked = [...expected.keys()].map(async (host) => {
      const [answer] = await converse(port, [`GET ${path} HTTP/1.1\r\nHost: ${host}\r\n\r\n`]);
      return [host, answer?.status] as const;
    });
    expect(new Map(await Promise.all(asked)), path).toEqual(expected);
  }
});

test.for([
  [{ HOST: '0.0.0.0' }, 200, 400],
  [{ OPS_HOST: '0.0.0.0' }, 400, 200],
] as const)('with %j, each port goes by its own address', async ([env, ...expected]) => {
  const server = await startServer({ env });
  const sent = ['/openapi.json', '/livez'].map((path) => [`GET ${path} HTTP/1.1\r\nHost: evil.example\r\n\r\n`]);
  const ports = [server.port, Number(new URL(server.opsUrl()).port)];
  const answers = await Promise.all(sent.map((request, index) => converse(ports[index] as number, request)));
  expect(answers.map(([answer]) => answer?.status)).toEqual(expected);
});

test('on a loopback address, what a rebound page would send is refused', async () => {
  const server = await startServer();
  const key = await server.firstKey();
  const head = `Host: evil.example:3000\r\nOrigin: http://evil.example:3000\r\nSec-Fetch-Site: same-origin\r\nAuthorization: Bearer ${key}`;
  const post = (path: string, type: string, body: string) =>
    `POST ${path} HTTP/1.1\r\n${head}\r\nContent-Type: application/${type}\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
  const requests = [
    post('/account/sign-up', 'x-www-form-urlencoded', 'name=evil&password=seven+otters+sing+at+noon'),
    post('/v1/pets', 'json', '{"name":"Biscuit","categoryId":7}'),
    `GET /v1/pets HTTP/1.1\r\n${head}\r\n\r\n`,
    `OPTIONS /v1/pets HTTP/1.1\r\n${head}\r\nAccess-Control-Request-Method: POST\r\n\r\n`,
    `GET /nowhere HTTP/1.1\r\n${head}\r\n\r\n`,
  ];
  for (const sent of requests) {
    const [answer] = await converse(server.port, [sent]);
    expect(answer, sent).toMatchObject({ status: 400, headers: { connection: 'close' } });
    expect(JSON.parse(answer?.text as string)).toMatchObject({
      code: 'bad_request',
      message: expect.stringContaining('ALLOWED_HOSTS'),
    });
    expect(answer?.text).not.toContain('evil');
  }
  expect((await server.get('/v1/pets')).json).toEqual([]);
  const list = async (what: string) => JSON.parse((await runCli([what, 'list', '--json'], server)).stdout);
  expect([await list('account'), await list('key')]).toMatchObject([[{ name: 'first' }], [{ id: 1 }]]);
});
