/** A wire to a database that can be cut, or fall silent, at a chosen moment. */

import { once } from 'node:events';
import net from 'node:net';
import { onTestFinished } from 'vitest';

export interface Proxy {
  /** `databaseUrl`, by way of this wire. */
  through: (databaseUrl: string) => string;
  /** The next answer of the database is lost, and its connection with it. */
  cutNextAnswer: () => void;
  /** Nothing arrives any more, in either direction, and connections stay open. */
  silence: () => void;
  /** All is well again, for new connections. */
  mend: () => void;
  /** What clients have sent so far, in Latin-1. */
  seen: () => string;
}

/** `ownPort`: 0 where any will do. */
export async function startProxy(databaseUrl: string, ownPort = 0): Promise<Proxy> {
  const { hostname, port } = new URL(databaseUrl);
  let state: 'well' | 'cut' | 'silent' = 'well';
  let seen = '';
  const sockets = new Set<net.Socket>();
  const server = net.createServer((near) => {
    const far = net.connect(Number(port), hostname);
    for (const socket of [near, far]) sockets.add(socket.on('error', () => undefined));
    const end = () => {
      near.destroy();
      far.destroy();
    };
    near.on('close', end).on('data', (bytes) => {
      seen += bytes.toString('latin1');
      return state !== 'silent' && far.write(bytes);
    });
    far.on('close', end).on('data', (bytes) => {
      if (state === 'cut') {
        state = 'well';
        return end();
      }
      return state !== 'silent' && near.write(bytes);
    });
  });
  server.listen(ownPort, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  const own = (server.address() as net.AddressInfo).port;
  return {
    through: (url) => url.replace(`:${port}/`, `:${own}/`),
    cutNextAnswer: () => {
      state = 'cut';
    },
    silence: () => {
      state = 'silent';
    },
    mend: () => {
      state = 'well';
    },
    seen: () => seen,
  };
}
