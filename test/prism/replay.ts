/** An upstream that gives back what the server once answered, byte for byte. */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { onTestFinished } from 'vitest';
import type { Answer } from '../support/documented.ts';

/** The request's header that says which answer it wants. */
export const ticketHeader = 'x-ticket';

export interface Replay {
  url: string;
  /** Keeps an answer for whoever brings the ticket that is returned. */
  hold: (answer: Answer) => string;
  /** Forgets the answer; returns whether it was fetched. */
  release: (ticket: string) => boolean;
}

/** Of one connection, not of the answer. */
const hopByHop = ['connection', 'keep-alive', 'transfer-encoding'];

/** Runs until the test ends. */
export async function startReplay(): Promise<Replay> {
  const held = new Map<string, { answer: Answer; fetched: boolean }>();
  let tickets = 0;
  // Prism writes bodies anew and leaves their old Content-Length: they are not waited for, nor is the connection used again.
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
