/** Limits the number of connections, and closes those whose client does not read its responses. */
import type { Server } from 'node:http';
import { BlockList, isIPv4, isIPv6, type Socket } from 'node:net';
import { createShares } from '../../shares.ts';
import { networkOf } from '../addresses.ts';

const sweepMs = 500;

/**
 * Time-out of a socket with unsent bytes. Node restarts it if the kernel has accepted part of the response meanwhile, which happens
 * immediately for a large response. A client that reads nothing is therefore disconnected after 4 to 8.5 seconds; one that reads slowly is
 * not.
 */
const stallMs = 4000;

export interface ConnectionOptions {
  maxConnections: number;
  /** Addresses and networks of proxies. Their connections are not limited. */
  trustProxy: string[];
  /** Responds to a connection that exceeds the limit, and closes it. */
  refuse: (socket: Socket) => void;
  /** Called when a connection that was not refused has closed. */
  onClose: (socket: Socket) => void;
}

/**
 * Limits the connections, divides them fairly between the networks of client addresses, and closes those whose client reads nothing.
 * Returns a function that counts the open connections.
 */
export function installConnections(
  server: Server,
  { maxConnections, trustProxy, refuse, onClose }: ConnectionOptions,
): () => number {
  const sockets = new Set<Socket>();
  const places = createShares<string>(maxConnections);
  const proxies = listOf(trustProxy);
  // Node's own listener starts the HTTP parser. It must not run for rejected connections.
  const [accept] = server.listeners('connection') as [(socket: Socket) => void];
  server.removeAllListeners('connection');

  server.on('connection', (socket) => {
    const { remoteAddress: address = '' } = socket;
    const counted = !proxies.check(address, isIPv4(address) ? 'ipv4' : 'ipv6');
    const network = networkOf(address);
    if (counted && !places.take(network)) return refuse(socket);
    sockets.add(socket);
    socket.once('close', () => {
      sockets.delete(socket);
      if (counted) places.give(network);
      onClose(socket);
    });
    accept.call(server, socket);
  });

  // server.timeout would also count the time that the store takes to respond, and set a timer for every request.
  const sweep = setInterval(() => {
    for (const socket of sockets) {
      const unread = socket.writableLength > 0;
      if (unread && !socket.timeout) socket.setTimeout(stallMs);
      else if (!unread && socket.timeout === stallMs) socket.setTimeout(0);
    }
  }, sweepMs).unref();
  server.once('close', () => clearInterval(sweep));

  server.on('timeout', (socket) => {
    // Reset the connection: after a normal close, the kernel would keep trying to send its buffered megabytes for minutes.
    if (socket.timeout === stallMs) socket.resetAndDestroy();
    // The socket was idle for keepAliveTimeout. Node leaves closing it to the listener of this event.
    else socket.destroy();
  });
  return () => sockets.size;
}

function listOf(addresses: string[]): BlockList {
  const list = new BlockList();
  for (const text of addresses) {
    const [address = '', prefix] = text.split('/');
    const family = isIPv6(address) ? 'ipv6' : 'ipv4';
    if (prefix === undefined) list.addAddress(address, family);
    else list.addSubnet(address, Number(prefix), family);
  }
  return list;
}
