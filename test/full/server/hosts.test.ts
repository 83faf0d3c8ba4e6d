/** Tests which hosts requests may name, on both ports: DNS rebinding must not let a page of another site use a server on this machine. */
import { describe, expect, test } from 'vitest';
import { runCli, type Server, startServer } from '../../support/process.ts';
import { converse, type RawAnswer } from '../../support/raw.ts';

/** The status and, for an error, its code. */
const summaryOf = ({ status, text }: RawAnswer) => (status < 400 ? `${status}` : `${status} ${JSON.parse(text).code}`);

const foreign = [
  ...['evil.example', 'evil.example:3000', 'localhost.evil.example', '127.0.0.1.evil.example', 'evillocalhost', ''],
  'localhost:99999',
];
const local = [
  ...['localhost', 'LocalHost:1', 'localhost.', 'store.localhost:80', '127.0.0.1', '127.255.0.9:65535', 'localhost:'],
  ...['[::1]', '[::1]:80', '[0:0:0:0:0:0:0:1]', '[::ffff:127.0.0.1]'],
];
const addresses = ['192.0.2.1', '0.0.0.0', '[::]', '[2001:db8::1]:80', '[::ffff:192.0.2.1]'];

/** The summary of the response to each request, by its Host. */
async function askAll(port: number, hosts: readonly string[], path = '/openapi.json'): Promise<Record<string, string>> {
  const asked = hosts.map(async (host) => {
    const answers = await converse(port, [`GET ${path} HTTP/1.1\r\nHost: ${host}\r\n\r\n`]);
    return [host, answers.map(summaryOf).join()] as const;
  });
  return Object.fromEntries(await Promise.all(asked));
}

const all = (hosts: readonly string[], summary: string) => Object.fromEntries(hosts.map((host) => [host, summary]));
const refused = '400 bad_request';
const opsPort = (server: Server) => Number(new URL(server.opsUrl()).port);

describe('a server on a loopback address', () => {
  test('serves local hosts, addresses, the host of BASE_URL and those of ALLOWED_HOSTS, on both ports, and no others', async () => {
    const server = await startServer({
      env: { BASE_URL: 'https://Animals.example.com:8443/v1', ALLOWED_HOSTS: 'Proxy_1' },
    });
    const named = ['animals.example.com', 'ANIMALS.example.com:80', 'proxy_1:9'];
    const others = [...foreign, 'www.animals.example.com', 'animals.example', 'a.proxy_1'];
    const expected = { ...all([...local, ...addresses, ...named], '200'), ...all(others, refused) };
    const hosts = Object.keys(expected);
    expect(await askAll(server.port, hosts)).toEqual(expected);
    expect(await askAll(opsPort(server), hosts, '/metrics')).toEqual(expected);
  });

  test('refuses what a rebound page would send, and changes nothing', async () => {
    const server = await startServer();
    const key = await server.firstKey();
    const origin = 'Origin: http://evil.example:3000\r\nSec-Fetch-Site: same-origin\r\n';
    const authorization = `Authorization: Bearer ${key}\r\n`;
    const form = 'name=evil&password=seven+otters+sing+at+noon&again=seven+otters+sing+at+noon';
    const post = (path: string, type: string, body: string) =>
      `POST ${path} HTTP/1.1\r\nHost: evil.example:3000\r\n${origin}${authorization}Content-Type: ${type}\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
    const urlencoded = 'application/x-www-form-urlencoded';
    const requests = [
      post('/account/sign-up', urlencoded, form),
      post('/account/sign-in', urlencoded, form),
      post('/account/keys', urlencoded, 'name=evil&scopes=pets:read&expires=never'),
      post('/v1/pets', 'application/json', '{"name":"Biscuit","categoryId":7}'),
      post('/quickstart/messages', 'application/json', '{"message":"Hello"}'),
      `GET /v1/pets HTTP/1.1\r\nHost: evil.example:3000\r\n${authorization}\r\n`,
      `OPTIONS /v1/pets HTTP/1.1\r\nHost: evil.example:3000\r\n${origin}Access-Control-Request-Method: POST\r\n\r\n`,
      'GET /nowhere HTTP/1.1\r\nHost: evil.example:3000\r\n\r\n',
      'GET /docs HTTP/1.1\r\nHost: evil.example:3000\r\n\r\n',
    ];
    const answers = await Promise.all(requests.map((sent) => converse(server.port, [sent])));
    for (const [answer] of answers) {
      expect(summaryOf(answer as RawAnswer)).toBe(refused);
      expect(answer).toMatchObject({
        headers: { connection: 'close' },
        text: expect.stringContaining('ALLOWED_HOSTS'),
      });
      expect(answer?.text).not.toContain('evil');
    }
    expect((await server.call(key, 'GET', '/v1/pets')).json).toEqual([]);
    const accounts = await runCli(['account', 'list', '--json'], server);
    expect(JSON.parse(accounts.stdout)).toMatchObject([{ name: 'first' }]);
    const keys = await runCli(['key', 'list', '--json'], server);
    expect(JSON.parse(keys.stdout)).toHaveLength(1);
  });
});

describe('a server on another address', () => {
  const env = { HOST: '0.0.0.0', OPS_HOST: '0.0.0.0' };
  const hosts = [...local, ...addresses, ...foreign].filter((host) => host !== 'localhost:99999');

  test('serves every host', async () => {
    const server = await startServer({ env });
    for (const port of [server.port, opsPort(server)])
      expect(await askAll(port, hosts, port === server.port ? undefined : '/livez')).toEqual(all(hosts, '200'));
  });

  test('serves only the hosts of ALLOWED_HOSTS and BASE_URL if ALLOWED_HOSTS is set, and addresses', async () => {
    const base = { BASE_URL: 'http://animals.example.com/v1', ALLOWED_HOSTS: 'animals.internal' };
    const server = await startServer({ env: { ...env, ...base } });
    const expected = {
      ...all([...local, ...addresses, 'animals.example.com', 'animals.internal:80'], '200'),
      ...all(['evil.example', '192.0.2.1.evil.example', 'evil.example:80', ''], refused),
    };
    for (const port of [server.port, opsPort(server)])
      expect(await askAll(port, Object.keys(expected), port === server.port ? undefined : '/livez')).toEqual(expected);
  });
});
