/** The connections: how many there may be, and which are given up because their client reads nothing. */
import type { Server } from 'node:http';
import { BlockList, isIPv4, isIPv6, type Socket } from 'node:net';
import { createShares } from '../shares.ts';

const sweepMs = 500;

/**
 * Node looks at the socket after so long, and goes on for as long again where the kernel has taken a part of the response since, as it
 * does at once of a large one: a client that takes nothing is cut off after 4 to 8.5 seconds, one that takes a little is not.
 */
const stallMs = 4000;

export interface ConnectionOptions {
  maxConnections: number;
  /** Addresses and networks of proxies: they have as many connections as they open. */
  trustProxy: string[];
  /** Answers a connection that there is no room for, and closes it. */
  refuse: (socket: Socket) => void;
}

/** Bounds the connections, each address to its share, and closes those whose client reads nothing. Returns how many there are. */
export function installConnections(
  server: Server,
  { maxConnections, trustProxy, refuse }: ConnectionOptions,
): () => number {
  const sockets = new Set<Socket>();
  const places = createShares<string>(maxConnections);
  const proxies = listOf(trustProxy);
  // Node's own, which parses what comes: not of a connection that is refused.
  const [accept] = server.listeners('connection') as [(socket: Socket) => void];
  server.removeAllListeners('connection');

  server.on('connection', (socket) => {
    const { remoteAddress: address = '' } = socket;
    const counted = !proxies.check(address, isIPv4(address) ? 'ipv4' : 'ipv6');
    if (counted && !places.take(address)) return refuse(socket);
    sockets.add(socket);
    socket.once('close', () => {
      sockets.delete(socket);
      if (counted) places.give(address);
    });
    accept.call(server, socket);
  });

  // Not by server.timeout, which would also count the time that the store takes to answer, and set a timer for every request.
  const sweep = setInterval(() => {
    for (const socket of sockets) {
      const unread = socket.writableLength > 0;
      if (unread && !socket.timeout) socket.setTimeout(stallMs);
      else if (!unread && socket.timeout === stallMs) socket.setTimeout(0);
    }
  }, sweepMs).unref();
  server.once('close', () => clearInterval(sweep));

  server.on('timeout', (socket) => {
    // A reset: the kernel would go on offering the megabytes that it holds, for minutes.
    if (socket.timeout === stallMs) socket.resetAndDestroy();
    // Idle for all of keepAliveTimeout, which Node leaves to us once we listen.
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
