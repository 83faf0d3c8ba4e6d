/**
 * A thread with many clients of one address that send slowly over TLS. Each opens a connection, sends `head`, and then `byte` again and again.
 * If the connection is closed, it begins anew: after 5 to 15 s if it has got a response, otherwise after `pauseMs`.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { connect } from 'node:tls';
import { parentPort, workerData } from 'node:worker_threads';

export interface SlowClients {
  port: number;
  localAddress: string;
  clients: number;
  head: string;
  byte: string;
  everyMs: number;
  protocol: 'http/1.1' | 'h2';
  pauseMs: number;
}

/** Posted first when every client has sent `head` once; then, after any message to the thread, when every connection is closed. */
export type Responses = Record<string, number>;

const { port, localAddress, clients, head, byte, everyMs, protocol, pauseMs } = workerData as SlowClients;
const [first, next] = [Buffer.from(head, 'latin1'), Buffer.from(byte, 'latin1')];

/** How many connections got which status. */
const responses: Responses = {};
const stopping = new AbortController();

async function sendSlowly(begun: () => void): Promise<void> {
  // The certificate is checked elsewhere.
  const options = { host: '127.0.0.1', port, localAddress, ALPNProtocols: [protocol], rejectUnauthorized: false };
  const socket = connect({ ...options, servername: 'animals.example.com' });
  const closed = new Promise((resolve) => socket.on('error', () => undefined).once('close', resolve));
  let answered = false;
  socket.on('data', (data) => {
    const [, status] = /^HTTP\/1\.1 (\d+)/.exec(data.toString('latin1')) ?? [];
    if (status === undefined) return;
    answered = true;
    responses[status] = (responses[status] ?? 0) + 1;
  });
  await Promise.race([new Promise((resolve) => socket.once('secureConnect', resolve)), closed]);
  socket.write(first);
  begun();
  const timer = setInterval(() => socket.write(next), everyMs);
  await closed;
  clearInterval(timer);
  await sleep(answered ? 5000 + Math.random() * 10_000 : pauseMs, undefined, stopping).catch(() => undefined);
}

async function repeat(begun: () => void): Promise<void> {
  while (!stopping.signal.aborted) await sendSlowly(begun);
}

parentPort?.once('message', () => stopping.abort());
const ends: Promise<void>[] = [];
while (ends.length < clients) {
  const few = Array.from({ length: Math.min(50, clients - ends.length) }, () => Promise.withResolvers<void>());
  ends.push(...few.map(({ resolve }) => repeat(resolve)));
  await Promise.all(few.map(({ promise }) => promise));
}
parentPort?.postMessage(responses);
await Promise.all(ends);
parentPort?.postMessage(responses);
