/** A connection: whom it counts against, and which of its requests is being answered. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Holder, Shares } from '../shares.ts';

export interface Connection {
  readonly socket: Socket;
  readonly address: string;
  readonly network: string;
  /** Whom it counts against; undefined if it is a trusted proxy's, which carries the requests of many. */
  holder: Holder | undefined;
  /** The response to which the next bytes belong. */
  response: ServerResponse | undefined;
  /** The request that was read last, until its response has closed. */
  request: IncomingMessage | undefined;
  /** What had been read of the connection when the response before ended: a body may arrive with its headers. */
  bytesBefore: number;
  /** The responses to requests that wait for those before theirs. */
  readonly waiting: ServerResponse[];
}

/** The open connections, by their sockets: not one that was refused, or is closed. */
export const connections = new WeakMap<object, Connection>();

/** Counts the connection of a request against the account of its API key, and no longer against its network. */
export function chargeConnection(connection: Connection, holder: Holder, shares: Shares): void {
  if (connection.holder === undefined || connection.holder === holder || connection.socket.destroyed) return;
  shares.give(connection.holder, 'connections');
  shares.add(holder, 'connections');
  connection.holder = holder;
}
