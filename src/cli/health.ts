/** The command that asks the server itself. */
import { once } from 'node:events';
import { get, type IncomingMessage } from 'node:http';
import { json } from 'node:stream/consumers';
import type { Command } from 'commander';
import { readEnvironment } from '../server/environment.ts';
import { print } from './output.ts';
import { CommandError } from './store.ts';

const healthTimeoutMs = 3000;

export function healthCommand(program: Command): void {
  program
    .command('health')
    .description('ask the server at OPS_HOST and OPS_PORT whether it is ready')
    .action(async () => {
      const { OPS_HOST, OPS_PORT } = readEnvironment();
      if (OPS_PORT === 'off') throw new CommandError('OPS_PORT is off: there is no door to ask at.');
      const host =
        { '0.0.0.0': '127.0.0.1', '::': '[::1]' }[OPS_HOST] ?? (OPS_HOST.includes(':') ? `[${OPS_HOST}]` : OPS_HOST);
      const url = `http://${host}:${OPS_PORT}/readyz`;
      // Not fetch, which refuses some ports, such as 6000 and 10080.
      const request = get(url, { signal: AbortSignal.timeout(healthTimeoutMs) });
      const [response] = (await once(request, 'response').catch((error: NodeJS.ErrnoException) => {
        // A time-out is told in the cause; where both addresses of localhost fail there is only a code.
        const reason = (error.cause as Error | undefined)?.message || error.message || error.code;
        throw new CommandError(`${url} does not answer: ${reason}.`);
      })) as [IncomingMessage];
      const body = (await json(response).catch(() => null)) as { status?: string; code?: string } | null;
      if (body?.code === 'service_unavailable') throw new CommandError('The server is not ready.');
      if (body?.status !== 'ready')
        throw new CommandError(`${url} answers ${response.statusCode}, but not as the animal store does.`);
      print('ready');
    });
}
