/** The way to a server: a socket, encrypted where the database's address asks for it. */
import { once } from 'node:events';
import net from 'node:net';
import tls from 'node:tls';
import type { Host, Target } from './url.ts';

export interface Way {
  /** Connects; can be called once. */
  open: () => Promise<net.Socket>;
  /** Ends it at once. The driver would close it politely, and wait for a server that stands still to do the same. */
  destroy: () => void;
}

/** SSLRequest (https://www.postgresql.org/docs/18/protocol-message-formats.html). */
const sslRequest = Buffer.from([0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f]);
const noTls = (reason: string) => Object.assign(new Error(reason), { code: 'NO_TLS' });
const willing = 'S'.charCodeAt(0);

/**
 * Here rather than in the driver, which verifies a certificate against "localhost" where the host is an address, and destroys only what
 * is within. `onEnd` is called as soon as the server sends no more: until the socket is closed, some turns of the event loop later, a
 * statement could still be written to it, and its outcome would count as unknown.
 */
export function createSocket({ host, port }: Host, ssl: Target['ssl'], onEnd: () => void): Way {
  const plain = new net.Socket();
  let outer: net.Socket = plain;
  let opened = false;

  async function encrypt(): Promise<void> {
    plain.write(sslRequest);
    const [answer] = (await once(plain, 'data')) as [Buffer];
    // More than one byte was put there by somebody in between, for us to take as if it had come encrypted (CVE-2021-23222).
    if (answer.length !== 1) throw noTls('the server does not speak its protocol');
    if (answer[0] !== willing) {
      if (ssl === 'prefer') return;
      throw noTls('the server does not offer TLS');
    }
    /* v8 ignore next -- the socket within tells of it, and only where both fail at once does this one */
    plain.removeAllListeners().on('error', () => undefined);
    const verify = typeof ssl === 'object' ? ssl : { rejectUnauthorized: false };
    outer = tls.connect({ socket: plain, host, ...(net.isIP(host) === 0 && { servername: host }), ...verify });
    await once(outer, 'secureConnect');
  }

  return {
    async open() {
      // The driver would also connect anew by itself, when a statement may have been sent already.
      if (opened) throw new Error('the connection was closed');
      opened = true;
      plain.connect(port, host);
      await once(plain, 'connect');
      plain.setNoDelay();
      if (ssl) await encrypt();
      return Object.assign(outer.once('end', onEnd), { host, port });
    },
    destroy() {
      outer.destroy();
      plain.destroy();
    },
  };
}
