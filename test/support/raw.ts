/** Sends raw bytes to the server. A client library would normalize a broken request or refuse to send it. */
import { once } from 'node:events';
import net from 'node:net';
import { expect, onTestFinished } from 'vitest';

/** Lets a server listen until the test ends. Resolves to its port. */
export async function listen(server: net.Server) {
  await once(server.listen(0, '127.0.0.1'), 'listening');
  onTestFinished(() => void server.close());
  return (server.address() as net.AddressInfo).port;
}

export interface RawAnswer {
  status: number;
  /** By lower-case name; the values of a repeated header are joined with a comma. */
  headers: Record<string, string>;
  text: string;
}

/** A GET with this key. `more`: further header lines. */
export const rawGet = (key: string, target: string, more = '') =>
  `GET ${target} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${key}\r\n${more}\r\n`;

/** A create with this key, whose body may be longer than what is sent of it. */
export const rawPost = (key: string, body: string, length = body.length) => {
  const type = `Content-Type: application/json\r\nContent-Length: ${length}\r\n`;
  return rawGet(key, '/v1/pets', type).replace('GET', 'POST') + body;
};

interface Conversation {
  /** The client closes its side after this number of final responses. */
  answers?: number;
  /** Close the sending side right after the last byte. */
  halfClose?: boolean;
  /** Time between two packets. Undefined: each is sent when the one before is answered. */
  gapMs?: number | undefined;
  deadlineMs?: number;
  /** Whether the responses have no body. */
  isHead?: boolean;
}

/** Sends `parts` (strings as Latin-1) and returns all responses until the server closes the connection. Rejects on a reset. */
export function converse(
  port: number,
  parts: readonly (string | Buffer)[],
  { answers = 1, halfClose = false, deadlineMs = 5000, isHead = false, ...more }: Conversation = {},
): Promise<RawAnswer[]> {
  const { gapMs } = { gapMs: 5, ...more };
  return new Promise((resolve, reject) => {
    const socket = net.connect({ port, host: '127.0.0.1', noDelay: true });
    const received: Buffer[] = [];
    const unsent = parts.map((part) => (typeof part === 'string' ? Buffer.from(part, 'latin1') : part));
    let gap: NodeJS.Timeout | undefined;
    const deadline = setTimeout(
      () => socket.destroy(new Error(`not closed within ${deadlineMs} ms: ${Buffer.concat(received)}`)),
      deadlineMs,
    );

    function sendNext() {
      const part = unsent.shift();
      if (part === undefined || !socket.writable) return;
      if (halfClose && unsent.length === 0) socket.end(part);
      else socket.write(part);
      if (gapMs !== undefined) gap = setTimeout(sendNext, gapMs);
    }

    socket.on('connect', sendNext);
    socket.on('data', (bytes: Buffer) => {
      received.push(bytes);
      const final = readAnswers(Buffer.concat(received), isHead).answers.filter(({ status }) => status >= 200);
      if (final.length >= answers) socket.end();
      else if (gapMs === undefined && final.length >= parts.length - unsent.length) sendNext();
    });
    socket.on('error', reject);
    socket.on('close', () => {
      clearTimeout(gap);
      clearTimeout(deadline);
      const { answers: all, rest } = readAnswers(Buffer.concat(received), isHead);
      if (rest.length > 0) reject(new Error(`bytes after the last response: ${rest}`));
      else resolve(all);
    });
  });
}

function readAnswers(bytes: Buffer, isHead: boolean): { answers: RawAnswer[]; rest: Buffer } {
  const answers: RawAnswer[] = [];
  let rest = bytes;
  for (let next = readAnswer(rest, isHead); next; next = readAnswer(rest, isHead)) {
    answers.push(next.answer);
    rest = next.rest;
  }
  return { answers, rest };
}

/** Reads the first response of `bytes`; undefined if it is not complete. `toHead`: it answers HEAD, so it has no body. */
export function readAnswer(bytes: Buffer, toHead = false): { answer: RawAnswer; rest: Buffer } | undefined {
  const end = bytes.indexOf('\r\n\r\n');
  if (end === -1) return undefined;
  const [statusLine = '', ...lines] = bytes.toString('latin1', 0, end).split('\r\n');
  const status = Number(/^HTTP\/1\.1 (\d{3}) /.exec(statusLine)?.[1]);
  const headers: Record<string, string> = {};
  for (const line of lines) {
    const name = line.slice(0, line.indexOf(':')).toLowerCase();
    const value = line.slice(line.indexOf(':') + 1).trim();
    headers[name] = name in headers ? `${headers[name]}, ${value}` : value;
  }
  const bodyEnd = end + 4 + (toHead ? 0 : Number(headers['content-length'] ?? 0));
  if (bytes.length < bodyEnd) return undefined;
  return { answer: { status, headers, text: bytes.toString('utf8', end + 4, bodyEnd) }, rest: bytes.subarray(bodyEnd) };
}

/** The status of a response and, for an error, its code. Fails if an error does not match the Error schema or lacks a header. */
export function summaryOf({ status, headers, text }: RawAnswer) {
  if (status < 400) return String(status);
  const body = JSON.parse(text);
  expect(body).toEqual({ code: expect.any(String), message: expect.any(String), status });
  expect(headers).toMatchObject({
    'content-type': 'application/json',
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
    'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
    'x-request-id': expect.stringMatching(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/),
  });
  return `${status} ${body.code}${status === 405 ? ` [${headers.allow?.replaceAll(',', '')}]` : ''}`;
}
