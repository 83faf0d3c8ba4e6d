/** How long `health` waits for a server. */
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { createServer } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { commandErrorOf } from '../../support/commands.ts';
import { runCli } from '../../support/process.ts';

test('exit 1: health waits for three seconds at most', async () => {
  const silent = createServer().listen(0, '127.0.0.1');
  onTestFinished(() => void silent.close());
  await once(silent, 'listening');
  const { port } = silent.address() as AddressInfo;
  expect(commandErrorOf(await runCli(['health'], { env: { OPS_PORT: String(port) } }))).toBe(
    `http://127.0.0.1:${port}/readyz does not answer: The operation was aborted due to timeout.`,
  );
});
