/** Tests that writeHead writes the same bytes as Node, and that it leaves to Node what is not the same. */
import { once } from 'node:events';
import { createServer, IncomingMessage, type RequestListener, ServerResponse } from 'node:http';
import net, { type AddressInfo } from 'node:net';
import { expect, onTestFinished, test, vi } from 'vitest';
import { limits } from '../../../src/core/limits.ts';
import { headersIn, linesOf, sendHead } from '../../../src/http/head.ts';

const body = '{"id":1}';
const headers = ['x-request-id', 'a', 'allow', '', 'link', '<a>; rel="b: c"', 'content-length', String(body.length)];
const lines = linesOf(headers);

/** Starts a server that sends `body` with each status in turn. Returns a function: the bytes of all its responses to one connection. */
async function serve(statuses: number[], write: (response: ServerResponse, status: number) => void, sent = body) {
  let served = 0;
  const answer: RequestListener = (request, response) => {
    request.resume();
    const at = served++;
    // The responses are complete in another order than their requests.
    const { set } = request.headers;
    setTimeout(
      () => {
        if (set !== undefined) response.setHeader('Connection', set);
        write(response, statuses[at % statuses.length] as number);
        response.end(sent, 'latin1');
      },
      20 * (statuses.length - at),
    );
  };
  const server = createServer({ keepAliveTimeout: limits.keepAlive, requireHostHeader: false }, answer);
  server.on('checkContinue', answer);
  server.listen(0, '127.0.0.1');
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return async (request: string) => {
    const socket = net.connect(port, '127.0.0.1');
    let received = '';
    let open = true;
    socket.setEncoding('latin1').on('data', (text) => {
      received += text;
    });
    socket.on('end', () => {
      open = false;
    });
    socket.write(request);
    await vi.waitFor(() => expect(served).toBeGreaterThanOrEqual(statuses.length), 2000);
    await new Promise((resolve) => setTimeout(resolve, 150));
    socket.destroy();
    return { open, received: received.replace(/(?<=\nDate: .*)\d\d GMT/g, 'XX GMT') };
  };
}

const byNode = (response: ServerResponse, status: number) => void response.writeHead(status, headersIn(lines).flat());
const byUs = (response: ServerResponse, status: number) => sendHead(response, status, lines);

const request = (line: string, more = '') => `${line}\r\nHost: a\r\n${more}\r\n`;

const rows: [name: string, statuses: number[], text: string][] = [
  ['GET', [200], request('GET / HTTP/1.1')],
  ['HEAD', [200], request('HEAD / HTTP/1.1')],
  ['POST', [201], `${request('POST / HTTP/1.1', 'Content-Length: 2\r\n')}{}`],
  ['POST in chunks', [201], `${request('POST / HTTP/1.1', 'Transfer-Encoding: chunked\r\n')}2\r\n{}\r\n0\r\n\r\n`],
  ['POST whose body is missing', [413], request('POST / HTTP/1.1', 'Content-Length: 2\r\n')],
  ['an expectation', [413], request('POST / HTTP/1.1', 'Expect: 100-continue\r\nContent-Length: 2\r\n')],
  ['Connection: close', [200], request('GET / HTTP/1.1', 'Connection: close\r\n')],
  ['a header that the framework has set', [200], request('GET / HTTP/1.1', 'Set: close\r\n')],
  ['HTTP/1.0', [200], request('GET / HTTP/1.0')],
  ['HTTP/1.0 on a connection that stays', [200], request('GET / HTTP/1.0', 'Connection: keep-alive\r\n')],
  ['204', [204], request('OPTIONS / HTTP/1.1')],
  ['304', [304], request('GET / HTTP/1.1')],
  ['errors', [401, 404, 503], request('GET / HTTP/1.1').repeat(3)],
  ['pipelined requests', [200, 304, 201], request('GET / HTTP/1.1').repeat(3)],
  ['pipelined requests, the last of a connection', [200, 200], request('GET / HTTP/1.1') + request('GET / HTTP/1.0')],
];

test('the same bytes as Node', async () => {
  await Promise.all(
    rows.map(async ([name, statuses, text]) => {
      const [node, us] = [await serve(statuses, byNode), await serve(statuses, byUs)];
      const [expected, found] = await Promise.all([node(text), us(text)]);
      expect(found, name).toEqual(expected);
      expect(found.received, name).toMatch(/^HTTP\/1\.1 \d{3} /);
    }),
  );
});

/** Whether Node's own writeHead() wrote the head of a response on a connection that stays open. */
function isLeftToNode(change: (response: ServerResponse) => void = () => undefined, sent = lines, status = 200) {
  const response = new ServerResponse(new IncomingMessage(new net.Socket()));
  response.shouldKeepAlive = true;
  change(response);
  const writeHead = vi.spyOn(response, 'writeHead').mockReturnThis();
  sendHead(response, status, sent);
  return writeHead.mock.calls.length > 0;
}

test('a plain response on a connection that stays open is written here; any other, and in a Node without the field, by Node', () => {
  expect(isLeftToNode()).toBe(false);
  expect(isLeftToNode(undefined, lines, 304)).toBe(true);
  expect(isLeftToNode(undefined, linesOf([...headers, 'connection', 'close']))).toBe(true);
  expect(isLeftToNode((response) => response.setHeader('connection', 'close'))).toBe(true);
  expect(isLeftToNode((response) => Object.assign(response, { shouldKeepAlive: false }))).toBe(true);
  expect(isLeftToNode((response) => Reflect.deleteProperty(response, '_header'))).toBe(true);
});

test('the date changes with the second', () => {
  vi.useFakeTimers({ toFake: ['Date'] });
  onTestFinished(() => void vi.useRealTimers());
  const dateAt = (now: number) => {
    vi.setSystemTime(now);
    const response = new ServerResponse(new IncomingMessage(new net.Socket()));
    response.shouldKeepAlive = true;
    sendHead(response, 200, '');
    return /^Date: (.*)$/m.exec(Reflect.get(response, '_header'))?.[1];
  };
  for (const now of [0, 999, 1000, 1_795_132_799_999, 1_795_132_800_000, 5000])
    expect(dateAt(now)).toBe(new Date(now).toUTCString());
});

test.each([
  ['a name', ['a b', 'c']],
  ['a value', ['a', 'b\r\nc: d']],
  ['a value that is not Latin-1', ['a', 'ł']],
])('%s that no header can have is rejected', (_, list) => {
  expect(() => linesOf(list)).toThrow(/Invalid|must be a valid/);
});

test('the headers of lines are those that made them', () => {
  expect(headersIn(lines).flat()).toEqual(headers);
});
