/** Tests that every change to accounts and keys is in the log of a real server, or printed by the command that made it. */
import { expect, test } from 'vitest';
import { password } from '../../support/account-pages.ts';
import { commandFolder } from '../../support/commands.ts';
import { openFormClient } from '../../support/form-client.ts';
import { launch, launchServer, startServer } from '../../support/process.ts';
import { projectFolder } from '../../support/project.ts';

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

test('a command whose event cannot be written still shows its secret, and exits with 1', {
  timeout: 120_000,
}, async () => {
  const { folder, run } = await commandFolder({ name: 'Tabby', categoryId: 1n, status: 'available' });
  await run('account', 'add', 'zoo');
  const print = async (command: string) => {
    const line = `'${process.execPath}' '${projectFolder}src/cli.ts' ${command} 2>/dev/full`;
    const { code, stdout } = await launch('bash', ['--norc', '-c', line], { folder }).end();
    expect(code).toBe(1);
    return stdout;
  };
  const created = await print('key create --account zoo --name till');
  const { key } = JSON.parse(await print('key rotate 1 --overlap 1h --json'));
  expect(await print('account invite fair')).toMatch(/\/account\/links\/[\w-]{43}\n$/);
  const server = await startServer({ folder });
  for (const secret of [created.trim(), key]) expect((await server.call(secret, 'GET', '/v1/pets')).status).toBe(200);
});
