/** One line per request, at info, when its response has closed. */
import type { ErrorCode } from '../errors.ts';

export interface Observation {
  reqId: string;
  status: number;
  method?: string;
  /** The route's template, or null where the path has none. */
  route?: string | null;
  ms?: number;
  /** The id of the API key. */
  key?: number | undefined;
  /** The trace that the client's request is part of. */
  traceId?: string | undefined;
  /** Why the request was refused, where it never came to a route. */
  code?: ErrorCode | undefined;
  /** Whether the client was gone before the whole response was handed to the kernel. */
  aborted?: boolean;
}

/** Told of every answered request. */
export type Observe = (answered: Observation) => void;

/** Two digits after the point, from whole numbers: V8 takes ten times as long for the text of a fraction. */
function hundredths(value: number): string {
  const rounded = Math.round(value * 100);
  const fraction = rounded % 100;
  return `${(rounded - fraction) / 100}.${fraction < 10 ? '0' : ''}${fraction}`;
}

/**
 * Writes the lines that pino would, by hand: pino asks each value for its serializer and its type, which costs as much as a fifth of a
 * request. All values are ours, and need no escaping: ids, methods that Node's parser knows, templates, codes.
 * `bindings`: what each line of the log carries, as JSON members.
 */
export function createRequestLog(write: (line: string) => void, bindings: string): Observe {
  let time = 0;
  let start = '';
  return ({ reqId, method, route, status, ms, key, traceId, code, aborted }) => {
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
