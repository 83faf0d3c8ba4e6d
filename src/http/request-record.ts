/** The record of a request: what its log line, the metrics and the use of its key say of it when the response has closed. */
import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { ErrorCode } from '../core/errors.ts';
import type { Connection } from './connection/connection.ts';
import type { Holder } from './shares.ts';

/** If the request reached no route, only some members are known. */
interface EndedRequest {
  reqId: string;
  status: number;
  method?: string | undefined;
  /** The route template; null if no route matches the path; undefined if no route was looked for. */
  route?: string | null | undefined;
  /** The path, if it matches no route. */
  path?: string | undefined;
  ms?: number;
  /** The client's IP address. */
  address?: string | undefined;
  /** The id of the API key. */
  key?: number | undefined;
  /** The trace id from the client's traceparent header. */
  traceId?: string | undefined;
  /** The error code of the response. */
  code?: ErrorCode | undefined;
  /** Whether the request called a deprecated operation. Not logged. */
  isDeprecated?: boolean;
  /** Whether the client disconnected before the whole response was handed to the kernel. */
  aborted?: boolean;
}

export interface RequestRecord extends EndedRequest {
  /** Of the client's address. */
  readonly network: string;
  /** Whom the request counts against: at first its network, then the account of its key or session. */
  holder: Holder;
  /** performance.now() when the request was read, with its body if it has one. */
  begun: number;
  readonly connection: Connection;
}

declare module 'node:http' {
  interface IncomingMessage {
    record: RequestRecord;
  }
}

/** Called once for every response. */
export type OnEnd = (request: EndedRequest) => void;

/** The client disconnected before its response began. Not in RFC 9110: nginx introduced this status, and other servers adopted it. */
const clientClosed = 499;

/** `address`: of the client. */
export function newRecord(
  { method }: IncomingMessage,
  connection: Connection,
  address: string,
  network: string,
): RequestRecord {
  return {
    connection,
    reqId: randomUUID(),
    method,
    route: undefined,
    path: undefined,
    status: 0,
    ms: 0,
    address,
    network,
    holder: network,
    key: undefined,
    traceId: undefined,
    code: undefined,
    isDeprecated: false,
    aborted: false,
    begun: performance.now(),
  };
}

/** Completes the record of a request whose response has closed. */
export function endRecord(response: ServerResponse): RequestRecord {
  const { headers, url, record } = response.req;
  record.status = response.headersSent ? response.statusCode : clientClosed;
  record.ms = performance.now() - record.begun;
  record.aborted = !response.writableFinished;
  if (headers.traceparent !== undefined) record.traceId = traceparent.exec(String(headers.traceparent))?.[1];
  if (record.route === null) record.path = loggedPath(url);
  return record;
}

/** version "-" trace-id "-" parent-id "-" flags (W3C Trace Context, section 3.2.2). Only later versions than 00 may have more. */
const traceparent = /^(?!ff|00.{54})[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?:-|$)/;

const maxPath = 200;

/**
 * A path as the log shows it: without the host, which may have a password, its query, what is below /account, and whatever is as long as an API key or a
 * one-time link, however encoded.
 */
function loggedPath(url = ''): string {
  const [path = ''] = url.split(/[?#]/, 1);
  // Shortened first: the patterns take up to 150 ns a character.
  return path
    .slice(0, 3 * maxPath)
    .replace(/^[a-z][a-z\d+.-]*:\/\/[^/]*/i, '')
    .replace(/(\/account)\/.*/i, '$1/…')
    .replace(/[\w%-]{30,}/g, '…')
    .slice(0, maxPath);
}

/** Formats `value` with two decimals from whole numbers: V8 takes ten times as long to format a fraction. */
function hundredths(value: number): string {
  const rounded = Math.round(value * 100);
  const fraction = rounded % 100;
  return `${(rounded - fraction) / 100}.${fraction < 10 ? '0' : ''}${fraction}`;
}

/**
 * Builds the same lines as pino, by hand: pino looks up a serializer and the type of each value, which costs as much as a fifth of a
 * request. No value but a path needs escaping: they are ids, methods that Node's parser knows, route templates, IP addresses and error codes.
 * `bindings`: the JSON members that every log line carries.
 */
export function createRequestLog(write: (line: string) => void, bindings: string): OnEnd {
  let time = 0;
  let start = '';
  return ({ reqId, method, route, path, status, ms, address, key, traceId, code, aborted }) => {
    const now = Date.now();
    if (now !== time) {
      time = now;
      start = `{"level":30,"time":${now},${bindings},"reqId":"`;
    }
    let line = `${start}${reqId}"`;
    if (method !== undefined) line += `,"method":"${method}"`;
    if (route !== undefined) line += route === null ? ',"route":null' : `,"route":"${route}"`;
    if (path !== undefined) line += `,"path":${JSON.stringify(path)}`;
    line += `,"status":${status}`;
    if (ms !== undefined) line += `,"ms":${hundredths(ms)}`;
    if (address !== undefined) line += `,"address":"${address}"`;
    if (key !== undefined) line += `,"key":${key}`;
    if (traceId !== undefined) line += `,"traceId":"${traceId}"`;
    if (code !== undefined) line += `,"code":"${code}"`;
    if (aborted) line += ',"aborted":true';
    write(`${line},"msg":"request"}\n`);
  };
}
