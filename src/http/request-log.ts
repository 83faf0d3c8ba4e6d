/** Writes one log line per request, at level info, when its response has closed. */
import type { ErrorCode } from '../core/errors.ts';

/** An exchange that has ended, for the log and the metrics. If its request reached no route, only some members are known. */
export interface EndedExchange {
  reqId: string;
  status: number;
  method?: string;
  /** The route template, or null if no route matches the path. */
  route?: string | null;
  ms?: number;
  /** The client's IP address; of a request that reached no route, the connection's. */
  address?: string | undefined;
  /** The id of the API key. */
  key?: number | undefined;
  /** The trace id from the client's traceparent header. */
  traceId?: string | undefined;
  /** The error code of a request that never reached a route, or of a 5xx response. */
  code?: ErrorCode | undefined;
  /** The error code of the response, whatever its status. Not logged. */
  sentCode?: ErrorCode | undefined;
  /** Whether the request called a deprecated operation. Not logged. */
  isDeprecated?: boolean;
  /** Whether the client disconnected before the whole response was handed to the kernel. */
  aborted?: boolean;
}

/** The client disconnected before its response began. Not in RFC 9110: nginx introduced this status, and other servers adopted it. */
export const clientClosed = 499;

/** Called once for every response. */
export type OnEnd = (exchange: EndedExchange) => void;

/** Formats `value` with two decimals from whole numbers: V8 takes ten times as long to format a fraction. */
function hundredths(value: number): string {
  const rounded = Math.round(value * 100);
  const fraction = rounded % 100;
  return `${(rounded - fraction) / 100}.${fraction < 10 ? '0' : ''}${fraction}`;
}

/**
 * Builds the same lines as pino, by hand: pino looks up a serializer and the type of each value, which costs as much as a fifth of a
 * request. No value needs escaping: they are ids, methods that Node's parser knows, route templates, IP addresses and error codes.
 * `bindings`: the JSON members that every log line carries.
 */
export function createRequestLog(write: (line: string) => void, bindings: string): OnEnd {
  let time = 0;
  let start = '';
  return ({ reqId, method, route, status, ms, address, key, traceId, code, aborted }) => {
    const now = Date.now();
    if (now !== time) {
      time = now;
      start = `{"level":30,"time":${now},${bindings},"reqId":"`;
    }
    let line = `${start}${reqId}"`;
    if (method !== undefined) line += `,"method":"${method}"`;
    if (route !== undefined) line += route === null ? ',"route":null' : `,"route":"${route}"`;
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

/** version "-" trace-id "-" parent-id "-" flags (W3C Trace Context, section 3.2.2). */
const traceparent = /^[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}/;

export function traceIdOf(header: string | string[] | undefined): string | undefined {
  return header === undefined ? undefined : traceparent.exec(String(header))?.[1];
}
