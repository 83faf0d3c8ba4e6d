/** Tests that every change to accounts and keys is in the log of a real server, whatever its level. */
import { expect, test } from 'vitest';
import { password } from '../../support/account-pages.ts';
import { openFormClient } from '../../support/form-client.ts';
import { launchServer } from '../../support/process.ts';

test('LOG_LEVEL=silent leaves out other lines, and no event', async () => {
  const server = launchServer({ env: { LOG_LEVEL: 'silent' } });
  const [, url = ''] = await server.seen('stderr', /(http:\S+)\/v1\/pets$/m);
  await openFormClient(url).post('/account/sign-up', { name: 'ada', password });
  const { stdout } = await server.end('SIGTERM');
  const lines = stdout.trim().split('\n');
  expect(lines.map((line) => JSON.parse(line))).toMatchObject([
    { event: 'account_created', account: 1 },
    { event: 'key_created', account: 1, key: 1 },
    { event: 'account_created', account: 2, address: '127.0.0.1' },
  ]);
});
