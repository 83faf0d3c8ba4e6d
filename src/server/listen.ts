/** Opens the ports, and explains a failure to the operator in one sentence. */
import { lookup } from 'node:dns/promises';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, Server } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type { FastifyInstance, FastifyListenOptions } from 'fastify';
import type { Config } from '../config.ts';
import { createHosts, isLoopback } from '../http/hosts.ts';

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

/**
 * libuv accepts one connection per listening socket and turn of the event loop. With a fifth of a core, a turn under load takes 60 ms: through one socket,
 * the connections that nginx opens at the start of a load are accepted for 10 s, and others wait behind them. The kernel divides connections among the
 * sockets of a port.
 */
const listeners = 8;

/** Rejects if a server listens: a socket with reusePort would share its port. To listen without it would reset what a proxy opens meanwhile. */
async function expectFree(host: string, port: number): Promise<void> {
  const socket = connect({ host: loopbackOf(host), port, timeout: 1000 }).on(
    'timeout',
    () => void socket.destroy(new Error('no answer')),
  );
  const isFree = await once(socket, 'connect').then(
    // In the range of ports for clients, a socket can connect to itself.
    () => socket.localPort === port,
    () => true,
  );
  socket.destroy();
  if (!isFree) throw Object.assign(new Error(), { code: 'EADDRINUSE' });
}

/** What keeps a server from listening, as sentences: none, or one. */
export const faultsOf = (binding: Binding): Promise<string[]> =>
  expectFree(binding.host, binding.port).then(
    () => [],
    (error) => [sentenceOf(binding, error)],
  );

/** Rejects if this machine does not have the address. */
async function tryAddress(host: string): Promise<void> {
  const trial = createServer().listen({ host, port: 0 });
  await once(trial, 'listening');
  trial.close();
}

/** The address of a host. A machine without IPv6 has no address ::, which stands for every interface: there, 0.0.0.0 does. */
async function addressOf(host: string): Promise<string> {
  const { address } = await lookup(host);
  if (address !== '::') return tryAddress(address).then(() => address);
  return tryAddress(address).then(
    () => address,
    () => '0.0.0.0',
  );
}

/** Resolves to the URL for clients on this machine. Rejects with an Error whose message names the invalid setting. */
export async function listen(app: FastifyInstance, binding: Binding) {
  const listenTextResolver = (address: string) =>
    `${binding.prefix ? 'Ops port open' : 'Server listening'} at ${address}`;
  try {
    // Resolve a name to one address. For localhost, Fastify would open a second server, whose requests are not bounded with those of the first.
    const host = await addressOf(binding.host);
    const reusePort = binding.prefix === '' && process.platform === 'linux';
    if (reusePort && binding.port !== 0) await expectFree(host, binding.port);
    // Fastify's types lack reusePort.
    const options: FastifyListenOptions & { reusePort: boolean } = {
      host,
      port: binding.port,
      listenTextResolver,
      reusePort,
    };
    await app.listen(options);
    const { address, port } = app.server.address() as AddressInfo;
    // With the options of Node's HTTP server. Its event may be emitted for other connections (https://nodejs.org/api/http.html#event-connection).
    const accept = () =>
      createServer({ allowHalfOpen: true, noDelay: true }, (socket) => void app.server.emit('connection', socket));
    const more = Array.from({ length: reusePort ? listeners - 1 : 0 }, accept);
    for (const server of more) await once(server.listen({ host, port, reusePort }), 'listening');
    return {
      url: localUrl(address, port),
      untilQuiet: () => untilQuiet(app),
      stop: () => stopListening(app, more),
    };
  } catch (error) {
    throw new Error(sentenceOf(binding, error as NodeJS.ErrnoException), { cause: error });
  }
}

/** The queues of the listening sockets count as empty after so many pauses without a new connection. */
const quietPauses = 6;

/** In each pause, the event loop turns at least once, and accepts a connection from each socket. */
const pauseMs = 5;

/** Maximum time that a stop waits for that. With the time that a request may take to arrive, it is less than the deadline of a stop. */
const maxQuietMs = 2000;

/**
 * Resolves when clients open no connections, or after the maximum: closing a listening socket resets those in its queue. Counts pauses, not time: a process
 * without a processor accepts nothing.
 */
async function untilQuiet({ server }: FastifyInstance): Promise<void> {
  let quiet = 0;
  server.on('connection', () => {
    quiet = 0;
  });
  const until = performance.now() + maxQuietMs;
  while (quiet < quietPauses && performance.now() < until) {
    quiet += 1;
    await sleep(pauseMs);
  }
}

/** An idle connection would keep the server open until its time-out. */
const closeIdleEveryMs = 100;

/** Resolves when every connection is closed. A proxy's connections close while they are idle, not in the middle of its next request. */
async function stopListening({ server }: FastifyInstance, more: readonly Server[]): Promise<void> {
  // http.Server's close() would also close idle connections now, and end its time-outs: a request that never completes would keep the process running.
  const close = (each: Server) => new Promise((resolve) => Server.prototype.close.call(each, resolve));
  const closed = Promise.all([server, ...more].map(close));
  const sweep = setInterval(() => server.closeIdleConnections(), closeIdleEveryMs);
  await closed;
  clearInterval(sweep);
}
