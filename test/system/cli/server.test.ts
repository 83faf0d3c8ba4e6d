/** The commands beside a running server, and `health`, which asks one. */
import { createServer, type RequestListener } from 'node:http';
import { expect, test, vi } from 'vitest';
import { commandFolder, expectRows, type Row, refused } from '../../support/commands.ts';
import { openFormClient } from '../../support/form-client.ts';
import { launchCli, runCli, startServer } from '../../support/process.ts';
import { listen } from '../../support/raw.ts';

test('keys work and end at once, accounts and links too; health follows the server', async () => {
  const server = await startServer({ env: { LAME_DUCK_MS: '60000' } });
  const { folder } = server;
  const run = async (...args: string[]) => (await runCli(args, { folder })).stdout.trim();
  const answerOf = async (key: string) => {
    const { status, json } = await server.call(key, 'GET', '/v1/pets');
    return [status, json.code];
  };

  await run('account', 'add', 'zoo');
  const first = await run('key', 'create', '--account', 'zoo', '--name', 'till');
  const second = await run('key', 'rotate', '2', '--overlap', '24h');
  const third = await run('key', 'rotate', '3', '--overlap', '0m');
  for (const key of [first, third]) expect(await answerOf(key)).toEqual([200, undefined]);
  await run('key', 'revoke', '2');
  await vi.waitFor(
    async () => {
      expect(await answerOf(first)).toEqual([401, 'revoked_api_key']);
      expect(await answerOf(second)).toEqual([401, 'revoked_api_key']);
    },
    { timeout: 1000 },
  );
  await run('account', 'remove', 'zoo', '--force');
  await vi.waitFor(async () => expect(await answerOf(third)).toEqual([401, 'invalid_api_key']), { timeout: 1000 });

  const link = new URL(await run('account', 'invite', 'Zoe'));
  const form = { name: 'Zoe', password: 'seven otters sing at noon' };
  expect((await openFormClient(server.url).post(link.pathname, form)).status).toBe(303);
  expect((await openFormClient(server.url).post('/account/sign-in', form)).status).toBe(303);

  const OPS_PORT = new URL(server.opsUrl()).port;
  const ready = (OPS_HOST?: string): Row => ['health', 0, 'ready\n', '', { OPS_HOST, OPS_PORT }];
  await expectRows(folder, [ready(), ready('0.0.0.0'), ready('localhost')]);
  await expectRows(folder, [['health', 0, 'ready\n', '', { OPS_PORT: 'off', PORT: String(server.port) }]]);
  void server.end('SIGTERM');
  await server.seen('stdout', /"msg":"stopping"/);
  await expectRows(folder, [refused('health', 'Not ready: the server stops.', { OPS_PORT })]);
});

test.for<[how: string, env: Record<string, string>]>([
  ['NODE_USE_ENV_PROXY', { NODE_USE_ENV_PROXY: '1' }],
  ['--use-env-proxy', { NODE_OPTIONS: '--use-env-proxy' }],
])('health asks no proxy, though %s lets Node use one', async ([, env]) => {
  const { folder, opsUrl, port } = await startServer({ env });
  const asked: string[] = [];
  const proxy = await startOther(({ url = '' }, response) => {
    asked.push(url);
    response.end('null');
  });
  const HTTP_PROXY = `http://127.0.0.1:${proxy}`;
  const proxies = { ...env, HTTP_PROXY, http_proxy: HTTP_PROXY, NO_PROXY: 'localhost' };
  for (const ports of [{ OPS_PORT: new URL(opsUrl()).port }, { OPS_PORT: 'off', PORT: String(port) }]) {
    const health = launchCli(['health'], { folder, env: { ...proxies, ...ports } });
    expect(await health.end()).toEqual({ code: 0, stdout: 'ready\n', stderr: '' });
  }
  expect(asked).toEqual([]);
});

/** Starts an HTTP server that is not ours, and resolves to its port. */
const startOther = async (respond: RequestListener) => String(await listen(createServer(respond)));

test('exit 1: health says what is at its address instead of a server', async () => {
  const { folder } = await commandFolder();
  const other = await startOther((_request, response) => void response.end('null'));
  // It waits for three seconds.
  const silent = await startOther(() => undefined);
  const timeout = `http://127.0.0.1:${silent}/readyz does not answer: The operation was aborted due to timeout.`;
  const noStore = `http://127.0.0.1:${other}/readyz answers 200, but it is not an animal store.`;
  // Nothing listens on port 1, and fetch would refuse to connect to it.
  const unreachable = (OPS_HOST: string, host: string) => {
    const sentence = `http://${host.includes(':') ? `[${host}]` : host}:1/readyz does not answer: connect ECONNREFUSED ${host}:1.`;
    return refused('health', sentence, { OPS_HOST, OPS_PORT: '1' });
  };
  await expectRows(folder, [
    refused('health', 'OPS_PORT is 0: there is no known port to ask.', { OPS_PORT: '0' }),
    refused('health', 'PORT is 0: there is no known port to ask.', { OPS_PORT: 'off', PORT: '0' }),
    refused('health', `http://127.0.0.1:${other}/v1/pets answers 200, but it is not an animal store.`, {
      OPS_PORT: 'off',
      PORT: other,
    }),
    unreachable('0.0.0.0', '127.0.0.1'),
    unreachable('::', '127.0.0.1'),
    unreachable('::1', '::1'),
    refused('health', noStore, { OPS_PORT: other }),
    refused('health', timeout, { OPS_PORT: silent }),
  ]);
});
