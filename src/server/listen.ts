/** Opens the ports, and explains a failure to the operator in one sentence. */
import { lookup } from 'node:dns/promises';
import { once } from 'node:events';
import { type AddressInfo, createServer, Server } from 'node:net';
import type { FastifyInstance } from 'fastify';
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

/** The URL for clients on this machine, without a path. A server that listens on every interface is reached through the loopback interface. */
export function localUrl(host: string, port: number | string): string {
  const name = { '0.0.0.0': '127.0.0.1', '::': '::1' }[host] ?? host;
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
 * libuv accepts one connection per listening socket and turn of the event loop. Of 2,000 new connections, with turns of 30 ms, the last one would
 * wait for a minute. The kernel divides new connections among the sockets of a port.
 */
const listeners = 128;

/**
 * Resolves to what keeps other processes of the animal store from the port until it is closed. Rejects if another process uses the port: it could
 * share its port, too, and would then get a part of the connections.
 */
async function claimPort(host: string, port: number): Promise<Server> {
  // Two processes that start at once would both find it free. The kernel frees this name (an abstract one, unix(7)) with the process.
  const name = createServer((socket) => socket.destroy()).listen(`\0animal-store ${host} ${port}`);
  await once(name, 'listening');
  const server = createServer().listen({ host, port });
  await once(server, 'listening');
  server.close();
  await once(server, 'close');
  return name;
}

/**
 * Resolves to the `url` for clients on this machine, and to `stop`, which closes all listening sockets at once and resolves when every connection is
 * closed, too. Rejects with an Error whose message names the invalid setting.
 */
export async function listen(app: FastifyInstance, binding: Binding) {
  try {
    // Resolve a name to one address. For localhost, Fastify would open a second server that the graceful shutdown does not cover.
    const host = (await lookup(binding.host)).address;
    const sharesPort = binding.prefix === '' && process.platform === 'linux';
    const held = sharesPort && binding.port !== 0 ? [await claimPort(host, binding.port)] : [];
    const create = () =>
      // The options of Node's HTTP server.
      createServer({ allowHalfOpen: true, noDelay: true }, (socket) => void app.server.emit('connection', socket));
    const more = Array.from({ length: sharesPort ? listeners - 1 : 0 }, create);
    // Fastify's types lack reusePort.
    const options = { host, port: binding.port, reusePort: sharesPort };
    await app.listen(options);
    const { address, port } = app.server.address() as AddressInfo;
    for (const listener of more) await once(listener.listen({ host, port, reusePort: true }), 'listening');
    // That of Node's HTTP server would also end its time-outs: a request that never completes would keep the process from its end.
    const close = (server: Server) => new Promise((resolve) => Server.prototype.close.call(server, resolve));
    return { url: localUrl(address, port), stop: () => Promise.all([...held, ...more, app.server].map(close)) };
  } catch (error) {
    throw new Error(sentenceOf(binding, error as NodeJS.ErrnoException), { cause: error });
  }
}
