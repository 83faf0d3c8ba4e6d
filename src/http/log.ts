/** The end of each request: its line in the log, its metrics, and the use of its key. */
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { ErrorCode } from '../core/errors.ts';

/** If the request reached no route, only some members are known. */
interface EndedRequest {
  reqId: string;
  status: number;
  method?: string | undefined;
  /** The route template; null if no route matches the path; undefined if no route was looked for. */
  route?: string | null | undefined;
  /** Whether the route is an operation of the API. Not logged. */
  isOperation?: boolean;
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

/** Called once for every response. */
export type OnEnd = (request: EndedRequest) => void;

/** The client disconnected before its response began. Not in RFC 9110: nginx introduced this status, and other servers adopted it. */
const clientClosed = 499;

/** version "-" trace-id "-" parent-id "-" flags (W3C Trace Context, section 3.2.2). Only later versions than 00 may have more. */
const traceparent = /^(?!ff|00.{54})[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?:-|$)/;

/** What is known about a request when its response has closed. */
export function endedRequest(request: FastifyRequest, { raw, elapsedTime }: FastifyReply): EndedRequest {
  const { id, method, headers, client, apiKey, errorCode, bodyMs, routeOptions } = request;
  const { url = null, config } = routeOptions;
  const route = config.isUnknown ? null : url;
  return {
    reqId: id,
    status: raw.headersSent ? raw.statusCode : clientClosed,
    method,
    route,
    isOperation: config.operation !== undefined,
    path: route === null ? loggedPath(request.originalUrl) : undefined,
    // Without the time that the client took to send its body.
    ms: elapsedTime - bodyMs,
    address: client.address,
    key: apiKey?.id,
    traceId: headers.traceparent === undefined ? undefined : traceparent.exec(String(headers.traceparent))?.[1],
    code: errorCode,
    isDeprecated: config.operation?.sunset !== undefined && errorCode !== 'rate_limited',
    aborted: !raw.writableFinished,
  };
}

const maxPath = 200;

/**
 * A path as the log shows it: without the host, which may have a password, its query, what is below /account, and whatever is as long as an API key or a
 * one-time link, however encoded.
 */
function loggedPath(url: string): string {
  const [path = ''] = url.split(/[?#]/, 1);
  // Shortened first: the patterns take up to 150 ns a character.
  return path
    .slice(0, 3 * maxPath)
    .replace(/^[a-z][a-z\d+.-]*:\/\/[^/]*/i, '')
    .replace(/(\/account)\/.*/i, '$1/…')
    .replace(/[\w%-]{30,}/g, '…')
    .slice(0, maxPath);
}

/** Formats `value` with two decimals, as two integers: V8 takes ten times as long to format a fraction. */
function hundredths(value: number): string {
  const rounded = Math.round(value * 100);
  const fraction = rounded % 100;
  return `${(rounded - fraction) / 100}.${fraction < 10 ? '0' : ''}${fraction}`;
}

/**
 * Builds the same lines as pino, by hand: pino looks up a serializer and the type of each value, 4 µs of a read of 30. No value but a path needs
 * escaping: they are ids, methods that Node's parser knows, route templates, IP addresses and error codes. `bindings`: the JSON members that every log line
 * carries.
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
