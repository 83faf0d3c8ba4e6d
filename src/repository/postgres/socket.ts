/** Opens the socket to a PostgreSQL server, with TLS if the database URL asks for it. */
import { once } from 'node:events';
import net from 'node:net';
import tls from 'node:tls';
import type { Host, Target } from './url.ts';

export interface Way {
  /** Connects. Rejects if called a second time. */
  open: () => Promise<net.Socket>;
  /** Closes the socket immediately. The driver's own close would wait for the server, which may hang. */
  destroy: () => void;
}

/** SSLRequest (https://www.postgresql.org/docs/18/protocol-message-formats.html). */
const sslRequest = Buffer.from([0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f]);
const noTls = (reason: string) => Object.assign(new Error(reason), { code: 'NO_TLS' });
const willing = 'S'.charCodeAt(0);

/**
 * Replaces the driver's TLS code, which checks the certificate against "localhost" if the host is an IP address, and destroys only the inner
 * socket. `onEnd` is called as soon as the server ends its side. The socket closes some turns of the event loop later, and a statement
 * written in between would have an unknown outcome.
 */
export function createSocket({ host, port }: Host, ssl: Target['ssl'], onEnd: () => void): Way {
  const plain = new net.Socket();
  let outer: net.Socket = plain;
  let opened = false;

  async function encrypt(): Promise<void> {
    plain.write(sslRequest);
    const [answer] = (await once(plain, 'data')) as [Buffer];
    // An attacker may have injected more than one byte, to be read as if it had been encrypted (CVE-2021-23222).
    if (answer.length !== 1) throw noTls('the server does not follow the PostgreSQL protocol');
    if (answer[0] !== willing) {
      if (ssl === 'prefer') return;
      throw noTls('the server does not offer TLS');
    }
    // The TLS socket reports errors. Without a handler here, an error on the inner socket would crash the process.
    plain.removeAllListeners().on('error', () => undefined);
    const verify = typeof ssl === 'object' ? ssl : { rejectUnauthorized: false };
    outer = tls.connect({ socket: plain, host, ...(net.isIP(host) === 0 && { servername: host }), ...verify });
    await once(outer, 'secureConnect');
  }

  return {
    async open() {
      // Prevents the driver from reconnecting by itself after a statement may have been sent.
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
