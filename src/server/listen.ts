/** Opens the ports, and explains a failure to the operator in one sentence. */
import { lookup } from 'node:dns/promises';
import { once } from 'node:events';
import { type AddressInfo, createServer, Server } from 'node:net';
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import type { FastifyInstance, FastifyListenOptions } from 'fastify';
import type { Config } from '../config.ts';
import { createHosts, isLoopback } from '../http/hosts.ts';
import { expectFree, isUseful, openMore } from './more-sockets.ts';

interface Binding {
  host: string;
  port: number;
  /** Prefix of the two settings' names, before HOST and PORT. */
  prefix: '' | 'OPS_';
}

function sentenceOf({ host, port, prefix }: Binding, { code, message }: NodeJS.ErrnoException): string {
  const portName = `${prefix}PORT`;
  const others = prefix === 'OPS_' ? ' or to off' : '';
  if (code === 'EADDRINUSE')
    return `${portName} ${port} on ${host} is already in use: set ${portName} to a free port${others}, or stop the process that uses it.`;
  if (code === 'EACCES') return `${portName} ${port} is not allowed for this user: set ${portName} to 1024 or above.`;
  return `${prefix}HOST ${host} cannot be used to listen on: ${message}.`;
}

/** The address that reaches a server at `host` from this machine. A server at :: also serves IPv4, which every machine has. */
const loopbackOf = (host: string) => (host === '::' || host === '0.0.0.0' ? '127.0.0.1' : host);

/** The URL for clients on this machine, without a path. A server that listens on every interface is reached through the loopback interface. */
export function localUrl(host: string, port: number | string): string {
  const name = loopbackOf(host);
  return `http://${name.includes(':') ? `[${name}]` : name}:${port}`;
}

/**
 * Resolves to the hosts that requests to a server at `host` may name, or to undefined for every host: that is the default, except on a loopback
 * address.
 */
export async function hostsOf(host: string, { BASE_URL, ALLOWED_HOSTS }: Config) {
  // If the name cannot be resolved, listen() reports it.
  const { address } = await lookup(host).catch(() => ({ address: host }));
  if (!isLoopback(address) && ALLOWED_HOSTS === undefined) return undefined;
  const names = [host, ...(ALLOWED_HOSTS?.split(',') ?? [])];
  if (BASE_URL !== undefined) names.push(new URL(BASE_URL).hostname);
  return createHosts(names);
}

/** Rejects if nothing can listen there. With port 0: if this machine does not have the address. */
async function tryToListen(host: string, port = 0): Promise<void> {
  const trial = createServer().listen({ host, port });
  await once(trial, 'listening');
  trial.close();
}

/** The address of a host. A machine without IPv6 has no address ::, which stands for every interface: there, 0.0.0.0 does. */
async function addressOf(host: string): Promise<string> {
  const { address } = await lookup(host);
  if (address !== '::') return address;
  return tryToListen(address).then(
    () => address,
    () => '0.0.0.0',
  );
}

/** Resolves to the address. Rejects with an Error whose message names the invalid setting. */
async function listen(app: FastifyInstance, binding: Binding, reusePort = false): Promise<AddressInfo> {
  const listenTextResolver = (address: string) =>
    `${binding.prefix ? 'Ops port open' : 'Server listening'} at ${address}`;
  try {
    // Resolve a name to one address. For localhost, Fastify would open a second server, whose requests are not bounded with those of the first.
    const host = await addressOf(binding.host);
    if (reusePort && binding.port !== 0) await expectFree(loopbackOf(host), binding.port);
    // Fastify's types lack reusePort.
    const options: FastifyListenOptions & { reusePort: boolean } = {
      host,
      port: binding.port,
      listenTextResolver,
      reusePort,
    };
    await app.listen(options);
    return app.server.address() as AddressInfo;
  } catch (error) {
    throw new Error(sentenceOf(binding, error as NodeJS.ErrnoException), { cause: error });
  }
}

/**
 * Opens the ops port, unless it is off, and then the other one. Resolves to the URL of `app` for clients on this machine, and its listening sockets. Rejects
 * with an Error that has a sentence for each fault.
 */
export async function openPorts(app: FastifyInstance, ops: FastifyInstance, config: Config) {
  const binding: Binding = { host: config.HOST, port: config.PORT, prefix: '' };
  const opsBinding: Binding = { host: config.OPS_HOST, port: Number(config.OPS_PORT), prefix: 'OPS_' };
  const faults: string[] = [];
  if (config.OPS_PORT !== 'off') await listen(ops, opsBinding).catch(({ message }) => faults.push(message));
  if (faults.length > 0) {
    await addressOf(binding.host)
      .then((host) => tryToListen(host, binding.port))
      .catch((error) => faults.push(sentenceOf(binding, error)));
    throw new Error(faults.join('\n'));
  }
  const { address, port } = await listen(app, binding, isUseful);
  const more = isUseful ? await openMore(app.server, address, port) : [];
  return { url: localUrl(address, port), sockets: [app.server, ...more] };
}

/** Clients open no connections if none comes in this time. */
const quietMs = 50;

/** Maximum time that a stop waits for that. With the time that a request may take to arrive, it is less than the deadline of a stop. */
const maxQuietMs = 2000;

/** Resolves when clients open no connections, or after the maximum: to close a listening socket resets those in its queue. */
export async function untilQuiet({ server }: FastifyInstance): Promise<void> {
  const until = performance.now() + maxQuietMs;
  for (let accepted = true; accepted && performance.now() < until; ) {
    accepted = false;
    const note = () => {
      accepted = true;
    };
    server.once('connection', note);
    await sleep(quietMs);
    // A process that had no processor has accepted nothing: a turn of the event loop begins with timers, and accepts after them.
    await nextTurn();
    server.off('connection', note);
  }
}

/** An idle connection would keep the server open until its time-out. At 100 ms, a proxy on a busy machine still uses some that seem idle. */
const closeIdleEveryMs = 500;

/** Closes the sockets. Resolves when every connection is closed. A proxy's connections close while they are idle, not in the middle of its next request. */
export async function closeConnections({ server }: FastifyInstance, sockets: readonly Server[]): Promise<void> {
  // http.Server's close() would also close idle connections now, and end its time-outs: a request that never completes would keep the process running.
  const close = (each: Server) => new Promise((resolve) => Server.prototype.close.call(each, resolve));
  const closed = Promise.all(sockets.map(close));
  // Immediates run when the requests that have arrived are read: their connections are not idle.
  const sweep = setInterval(() => setImmediate(() => server.closeIdleConnections()), closeIdleEveryMs);
  await closed;
  clearInterval(sweep);
}
