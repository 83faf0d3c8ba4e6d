/** An upstream server that replays recorded responses. */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { onTestFinished } from 'vitest';
import type { Answer } from '../../support/documented.ts';

/** The request header that selects the response. */
export const ticketHeader = 'x-ticket';

export interface Replay {
  url: string;
  /** Holds a response for the request with the returned ticket. */
  hold: (answer: Answer) => string;
  /** Removes the response; returns whether it was fetched. */
  release: (ticket: string) => boolean;
}

/** Headers of the connection, not of the response. */
const hopByHop = ['connection', 'keep-alive', 'transfer-encoding'];

/** Starts the server; it runs until the test ends. */
export async function startReplay(): Promise<Replay> {
  const held = new Map<string, { answer: Answer; fetched: boolean }>();
  let tickets = 0;
  // Prism rewrites bodies but keeps the old Content-Length, so a connection cannot be reused after a response.
  const server = createServer((request, response) => {
    const place = held.get(String(request.headers[ticketHeader]));
    if (!place) return void response.writeHead(599).end();
    place.fetched = true;
    const { status, headers, text } = place.answer;
    const kept = Object.entries(headers).filter(([name]) => !hopByHop.includes(name));
    response.shouldKeepAlive = false;
    response.writeHead(status, Object.fromEntries(kept) as Record<string, string>).end(text);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    hold(answer) {
      const ticket = String(++tickets);
      held.set(ticket, { answer, fetched: false });
      return ticket;
    },
    release(ticket) {
      const fetched = held.get(ticket)?.fetched ?? false;
      held.delete(ticket);
      return fetched;
    },
  };
}
