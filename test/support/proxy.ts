/** A TCP proxy that loses data, closes connections or leads to another server on command. */

import { once } from 'node:events';
import net from 'node:net';
import { onTestFinished } from 'vitest';

/** `ownPort`: 0 for any free port. */
export async function startProxy(databaseUrl: string, ownPort = 0) {
  const { port } = new URL(databaseUrl);
  let target = new URL(databaseUrl);
  let state: 'forwarding' | 'cut' | 'silent' | 'refusing' | 'muting' = 'forwarding';
  let seen = '';
  let accepted = 0;
  const sockets = new Set<net.Socket>();
  const server = net.createServer((near) => {
    accepted += 1;
    if (state === 'refusing') return near.destroy();
    const isMute = state === 'muting';
    const far = net.connect(Number(target.port), target.hostname);
    for (const socket of [near, far])
      sockets.add(socket.on('error', () => {}).on('close', () => sockets.delete(socket)));
    const end = () => {
      near.destroy();
      far.destroy();
    };
    near.on('close', end).on('data', (bytes) => {
      seen += bytes.toString('latin1');
      return state !== 'silent' && !isMute && far.write(bytes);
    });
    far.on('close', end).on('data', (bytes) => {
      if (state === 'cut') {
        state = 'forwarding';
        return end();
      }
      return state !== 'silent' && near.write(bytes);
    });
  });
  server.listen(ownPort, '127.0.0.1');
  await once(server, 'listening');
  const closeAll = () => {
    for (const socket of sockets) socket.destroy();
  };
  onTestFinished(() => {
    closeAll();
    server.close();
  });
  const own = (server.address() as net.AddressInfo).port;
  return {
    /** `databaseUrl` through the proxy. */
    url: databaseUrl.replace(`:${port}/`, `:${own}/`),
    /** Drops the next response and closes its connection. */
    cutNextAnswer() {
      state = 'cut';
    },
    /** Drops all data in both directions, but keeps connections open. */
    silence() {
      state = 'silent';
    },
    /** Drops all data of new connections. */
    silenceNew() {
      state = 'muting';
    },
    /** Closes all connections, and each new one. */
    refuse() {
      state = 'refusing';
      closeAll();
    },
    /** Forwards data again; meant for new connections. */
    restore() {
      state = 'forwarding';
    },
    /** Leads new connections to the server of another URL, and closes all others. */
    leadTo(url: string) {
      target = new URL(url);
      closeAll();
    },
    /** Connections so far. */
    accepted: () => accepted,
    /** Everything that clients have sent so far, as Latin-1. */
    seen: () => seen,
  };
}
