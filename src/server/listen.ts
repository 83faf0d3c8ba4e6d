/** Opening ports, and the one sentence for the operator where that fails. */
import { lookup } from 'node:dns/promises';
import type { AddressInfo } from 'node:net';
import type { FastifyInstance } from 'fastify';
import type { Logger } from 'pino';
import type { Config } from '../config.ts';

interface Place {
  host: string;
  port: number;
  /** What the names of the two settings begin with, before HOST and PORT. */
  prefix: '' | 'OPS_';
}

function sentenceOf({ host, port, prefix }: Place, { code, message }: NodeJS.ErrnoException): string {
  const portName = `${prefix}PORT`;
  if (code === 'EADDRINUSE')
    return `${portName} ${port} on ${host} is already in use: set ${portName} to a free one, or stop the process that holds it.`;
  /* c8 ignore next -- nothing is forbidden to root, as whom tests may run */
  if (code === 'EACCES') return `${portName} ${port} may not be opened by this user: set ${portName} to 1024 or above.`;
  return `${prefix}HOST ${host} cannot be listened on: ${message}.`;
}

/** An address that a client on this machine can use. */
function localUrl({ address, port, family }: AddressInfo): string {
  if (address === '0.0.0.0') return `http://127.0.0.1:${port}`;
  if (address === '::') return `http://[::1]:${port}`;
  return family === 'IPv6' ? `http://[${address}]:${port}` : `http://${address}:${port}`;
}

/** Resolves to the address to use on this machine; rejects with an Error whose message names the setting at fault. */
export async function listen(app: FastifyInstance, place: Place): Promise<string> {
  try {
    // One address, also of a name that has several: Fastify would open a second server for localhost, and not close it with care.
    await app.listen({ host: (await lookup(place.host)).address, port: place.port });
    return localUrl(app.server.address() as AddressInfo);
  } catch (error) {
    throw new Error(sentenceOf(place, error as NodeJS.ErrnoException), { cause: error });
  }
}

/** Opens the operators' door, unless the settings keep it closed. */
export async function listenOps(ops: FastifyInstance, { OPS_HOST, OPS_PORT }: Config, logger: Logger): Promise<void> {
  if (OPS_PORT === 'off') return;
  const url = await listen(ops, { host: OPS_HOST, port: Number(OPS_PORT), prefix: 'OPS_' });
  logger.info(`Ops port open at ${url}`);
}
