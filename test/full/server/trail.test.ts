/** Tests that the trail of a real server has every change to accounts and keys, whatever else is logged. */
import { expect, test } from 'vitest';
import { password } from '../../support/account-pages.ts';
import { change, commandFolder } from '../../support/commands.ts';
import { openFormClient } from '../../support/form-client.ts';
import { launchServer, runCli, startServer } from '../../support/process.ts';

/** The events in a log, with the ids and the members that say where they come from. */
const eventsIn = (log: string) =>
  log
    .split('\n')
    .filter((line) => line.includes('"event":'))
    .map((line) => {
      const { event, account, key, address, at } = JSON.parse(line);
      return { event, account, key, from: address ?? (at && 'command line') };
    });

const firstStart = [
  { event: 'account_created', account: 1 },
  { event: 'key_created', account: 1, key: 1 },
];

test('the account and the key of a first start are events, in the log and in the metrics', async () => {
  const server = await startServer();
  const secret = await server.firstKey();
  expect(eventsIn(server.stdout())).toEqual(firstStart);
  expect(server.stdout()).not.toContain(secret);
  const metrics = await (await fetch(`${server.opsUrl()}/metrics`)).text();
  for (const { event } of firstStart)
    expect(metrics).toContain(`animal_store_account_events_total{event="${event}"} 1\n`);
});

test('LOG_LEVEL=silent leaves out other lines, and no event', async () => {
  const server = launchServer({ env: { LOG_LEVEL: 'silent' } });
  const [, url = ''] = await server.seen('stderr', /(http:\S+)\/v1\/pets$/m);
  await openFormClient(url).post('/account/sign-up', { name: 'ada', password });
  expect(await runCli(['account', 'add', 'zoo'], { folder: server.folder })).toMatchObject({ code: 0 });
  await server.seen('stdout', /"account":3/);
  await server.end('SIGTERM');
  expect(eventsIn(server.stdout())).toEqual([
    ...firstStart,
    { event: 'account_created', account: 2, from: '127.0.0.1' },
    { event: 'account_created', account: 3, from: 'command line' },
  ]);
  expect(server.stdout().trim().split('\n')).toHaveLength(4);
});

test('a command whose event cannot be stored still shows its secret, says so in one sentence an event, and exits with 1', async () => {
  const { folder, store, run } = await commandFolder({ name: 'Tabby', categoryId: 1n, status: 'available' });
  await run('account', 'add', 'zoo');
  change(store, "CREATE TRIGGER full BEFORE INSERT ON account_event BEGIN SELECT RAISE(ABORT, 'no room'); END");
  const lost = (event: string) =>
    `animal-store: The change was made, but its event ${event} is missing in the trail: no room.\n`;
  const created = await runCli(['key', 'create', '--account', 'zoo', '--name', 'till'], { folder });
  expect([created.code, created.stdout]).toEqual([1, expect.stringMatching(/^ast_test_\w+\n$/)]);
  expect(created.stderr).toBe(`Key 1 of account zoo. It is shown only now:\n${lost('key_created')}`);
  const rotated = await runCli(['key', 'rotate', '1', '--overlap', '1h', '--json'], { folder });
  expect([rotated.code, rotated.stderr]).toEqual([1, lost('key_rotated')]);
  const { id, key } = JSON.parse(rotated.stdout);
  expect(id).toBe(2);
  const invited = await runCli(['account', 'invite', 'fair'], { folder });
  expect([invited.code, invited.stdout]).toEqual([1, expect.stringMatching(/\/account\/links\/[\w-]{43}\n$/)]);
  expect(invited.stderr.split(':\n').at(-1)).toBe(lost('account_created') + lost('account_invited'));

  const server = await startServer({ folder });
  for (const secret of [created.stdout.trim(), key])
    expect((await server.call(secret, 'GET', '/v1/pets')).status).toBe(200);
});
