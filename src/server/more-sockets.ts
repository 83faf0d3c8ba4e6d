/**
 * An optimisation: more listening sockets of one port. libuv accepts one connection per listening socket and turn of the event loop. With a fifth of a core and
 * one socket, the connections that nginx opens when a load begins wait for seconds, and hold the slots of others (docs/decisions/fairness.md).
 */
import { once } from 'node:events';
import { connect, createServer, type Server } from 'node:net';

/** Whether the kernel divides connections among the sockets of a port. */
export const isUseful = process.platform === 'linux';

const sockets = 8;

/** Rejects if a server listens: a socket with reusePort would share its port. To try without it would reset what a proxy opens meanwhile. */
export async function expectFree(host: string, port: number): Promise<void> {
  const socket = connect({ host, port, timeout: 1000 });
  socket.on('timeout', () => void socket.destroy(new Error('no answer')));
  const isFree = await once(socket, 'connect').then(
    // In the range of ports for clients, a socket can connect to itself.
    () => socket.localPort === port,
    () => true,
  );
  socket.destroy();
  if (!isFree) throw Object.assign(new Error(), { code: 'EADDRINUSE' });
}

/** Opens them. `server`, which listens there with reusePort, gets their connections (https://nodejs.org/api/http.html#event-connection). */
export async function openMore(server: Server, host: string, port: number): Promise<Server[]> {
  const accept = () =>
    // With the options of Node's HTTP server.
    createServer({ allowHalfOpen: true, noDelay: true }, (socket) => void server.emit('connection', socket));
  const more = Array.from({ length: sockets - 1 }, accept);
  for (const each of more) await once(each.listen({ host, port, reusePort: true }), 'listening');
  return more;
}
