/** Opens the ports, and explains a failure to the operator in one sentence. */
import { lookup } from 'node:dns/promises';
import type { AddressInfo } from 'node:net';
import type { FastifyInstance } from 'fastify';
import type { Logger } from 'pino';
import type { Config } from '../config.ts';

interface Place {
  host: string;
  port: number;
  /** Prefix of the two settings' names, before HOST and PORT. */
  prefix: '' | 'OPS_';
}

function sentenceOf({ host, port, prefix }: Place, { code, message }: NodeJS.ErrnoException): string {
  const portName = `${prefix}PORT`;
  const others = prefix === 'OPS_' ? ' or to off' : '';
  if (code === 'EADDRINUSE')
    return `${portName} ${port} on ${host} is already in use: set ${portName} to a free port${others}, or stop the process that uses it.`;
  if (code === 'EACCES') return `${portName} ${port} is not allowed for this user: set ${portName} to 1024 or above.`;
  return `${prefix}HOST ${host} cannot be used to listen on: ${message}.`;
}

/** The URL for clients on this machine. */
function localUrl({ address, port, family }: AddressInfo): string {
  if (address === '0.0.0.0') return `http://127.0.0.1:${port}`;
  if (address === '::') return `http://[::1]:${port}`;
  return family === 'IPv6' ? `http://[${address}]:${port}` : `http://${address}:${port}`;
}

/** Resolves to the URL for clients on this machine. Rejects with an Error whose message names the invalid setting. */
export async function listen(app: FastifyInstance, place: Place): Promise<string> {
  try {
    // Resolve a name to one address. For localhost, Fastify would open a second server that the graceful shutdown does not cover.
    await app.listen({ host: (await lookup(place.host)).address, port: place.port });
    return localUrl(app.server.address() as AddressInfo);
  } catch (error) {
    throw new Error(sentenceOf(place, error as NodeJS.ErrnoException), { cause: error });
  }
}

/** Opens the ops port unless OPS_PORT is off. Rejects like `listen`. */
export async function listenOps(ops: FastifyInstance, { OPS_HOST, OPS_PORT }: Config, logger: Logger): Promise<void> {
  if (OPS_PORT === 'off') return;
  const url = await listen(ops, { host: OPS_HOST, port: Number(OPS_PORT), prefix: 'OPS_' });
  logger.info(`Ops port open at ${url}`);
}
