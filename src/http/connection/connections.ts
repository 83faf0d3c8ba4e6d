/** Limits the number of connections, and closes those whose client does not read its responses. */
import type { Server } from 'node:http';
import type { Socket } from 'node:net';
import { limits } from '../../core/limits.ts';
import { type Claimant, createPlaces, type Holder } from '../../core/places.ts';
import { networkOf } from '../addresses.ts';

const sweepMs = 500;

/**
 * Time-out of a socket with unsent bytes. Node restarts it if the kernel has accepted part of the response meanwhile, which happens
 * immediately for a large response. A client that reads nothing is therefore disconnected after 4 to 8.5 seconds; one that reads slowly is
 * not.
 */
const stallMs = limits.stall;

export interface ConnectionOptions {
  maxConnections: number;
  /** Whether an address is that of a trusted proxy, whose connections are not limited. */
  isProxy: (address: string) => boolean;
  /** Responds to a connection that exceeds the limit, and closes it. */
  refuse: (socket: Socket) => void;
  /** Called when a connection that was not refused has closed. */
  onClose: (socket: Socket) => void;
}

export interface Connections {
  count(): number;
  /** Moves a connection to a place of the account whose valid API key it has carried, if there is one: strangers can then no longer displace it. */
  charge(socket: Socket, holder: Holder): void;
  /** Against whom the queued requests of the connection count. */
  claimantOf(socket: Socket): Claimant;
}

interface Place extends Claimant {
  /** Connections of trusted proxies are not counted. */
  counted: boolean;
}

const placeKey = Symbol('place');
interface WithPlace extends Socket {
  [placeKey]?: Place;
}

export function installConnections(
  server: Server,
  { maxConnections, isProxy, refuse, onClose }: ConnectionOptions,
): Connections {
  const sockets = new Set<WithPlace>();
  const withKey = createPlaces<Holder>(maxConnections);
  const strangers = createStrangers(maxConnections);
  // Node's own listener starts the HTTP parser. It must not run for rejected connections.
  const [accept] = server.listeners('connection') as [(socket: Socket) => void];
  server.removeAllListeners('connection');

  server.on('connection', (socket: WithPlace) => {
    const { remoteAddress: address = '', remotePort } = socket;
    const counted = !isProxy(address);
    const place: Place = { counted, holder: counted ? networkOf(address) : `${address} ${remotePort}`, stranger: true };
    if (counted && !strangers.add(socket, String(place.holder))) return refuse(socket);
    sockets.add(socket);
    socket[placeKey] = place;
    socket.once('close', () => {
      sockets.delete(socket);
      if (place.counted && place.stranger) strangers.remove(socket, String(place.holder));
      else if (place.counted) withKey.give(place.holder);
      onClose(socket);
    });
    accept.call(server, socket);
  });

  closeStalled(server, sockets);
  return {
    count: () => sockets.size,
    charge(socket: WithPlace, holder) {
      const place = socket[placeKey];
      // The client was gone before its key was looked up: its place is given back already.
      if (socket.destroyed) return;
      if (!place?.stranger || !place.counted || !withKey.take(holder)) return;
      strangers.remove(socket, String(place.holder));
      place.holder = holder;
      place.stranger = false;
    },
    claimantOf: (socket: WithPlace) => socket[placeKey] as Place,
  };
}

/** Closes connections whose client reads nothing. server.timeout would also count the time of the store, and set a timer for every request. */
function closeStalled(server: Server, sockets: Set<Socket>): void {
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
}

/** Connections that have carried no valid API key. */
interface Strangers {
  /** Returns false if the network has its equal share of the places. Otherwise, if no place is free, closes the oldest connection. */
  add(socket: Socket, network: string): boolean;
  remove(socket: Socket, network: string): void;
}

/** More would take too long if connections come without end. */
const maxLookedAt = 100;

function createStrangers(places: number): Strangers {
  /** Oldest first. */
  const all = new Set<Socket>();
  const takenBy = new Map<string, number>();

  /** Closes the oldest connection of a network with more than its share; of the oldest ones, if there is none among them. */
  function displace(share: number): void {
    const oldest = all.keys().take(maxLookedAt).toArray();
    const hasMore = (socket: Socket) => (takenBy.get(networkOf(socket.remoteAddress)) ?? 0) > share;
    const displaced = oldest.find(hasMore) ?? (oldest[0] as Socket);
    all.delete(displaced);
    displaced.destroy();
  }

  return {
    add(socket, network) {
      const own = takenBy.get(network) ?? 0;
      if (all.size >= places) {
        const networks = takenBy.size + (own === 0 ? 1 : 0);
        // Each network gets one, however many there are.
        const share = Math.max(1, Math.floor(places / networks));
        if (own >= share) return false;
        displace(share);
      }
      takenBy.set(network, own + 1);
      all.add(socket);
      return true;
    },

    remove(socket, network) {
      all.delete(socket);
      const left = (takenBy.get(network) ?? 0) - 1;
      if (left > 0) takenBy.set(network, left);
      else takenBy.delete(network);
    },
  };
}
