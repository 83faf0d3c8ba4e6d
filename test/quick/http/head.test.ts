/** Tests that sendHead writes the same bytes as Node's writeHead(), and calls that in a Node without the field that it sets. */
import { once } from 'node:events';
import { createServer, IncomingMessage, type RequestListener, ServerResponse } from 'node:http';
import net, { type AddressInfo } from 'node:net';
import { expect, onTestFinished, test, vi } from 'vitest';
import { limits } from '../../../src/core/limits.ts';
import { headersOf, linesOf, sendHead } from '../../../src/http/head.ts';

const body = '{"id":1}';
const lines = linesOf([
  'x-request-id',
  'a',
  'allow',
  '',
  'link',
  '<a>; rel="b: c"',
  'content-length',
  `${body.length}`,
]);

type Write = (response: ServerResponse, status: number) => void;

/** What a server sends that answers `text` with each status in turn, completing later responses earlier; and whether it closes the connection. */
async function serve(text: string, statuses: number[], write: Write) {
  let served = 0;
  const answer: RequestListener = (request, response) => {
    request.resume();
    const at = served++;
    const { set } = request.headers;
    const send = () => {
      if (set !== undefined) response.setHeader('Connection', set);
      write(response, statuses[at % statuses.length] as number);
      response.end(body, 'latin1');
    };
    setTimeout(send, 20 * (statuses.length - at));
  };
  const server = createServer({ keepAliveTimeout: limits.keepAlive, requireHostHeader: false }, answer);
  server.on('checkContinue', answer).listen(0, '127.0.0.1');
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  await once(server, 'listening');
  const socket = net.connect((server.address() as AddressInfo).port, '127.0.0.1').setEncoding('latin1');
  let received = '';
  let open = true;
  socket.on('data', (part) => {
    received += part;
  });
  socket.on('end', () => {
    open = false;
  });
  socket.write(text);
  await vi.waitFor(() => expect(received.split('HTTP/1.1').length).toBe(statuses.length + 1), 5000);
  await new Promise((resolve) => setTimeout(resolve, 150));
  socket.destroy();
  return { open, received: received.replace(/(?<=\nDate: .*)\d\d GMT/g, 'XX GMT') };
}

const on = (line: string, more = '') => `${line}\r\nHost: a\r\n${more}\r\n`;
const get = on('GET / HTTP/1.1');

test.each<[text: string, statuses: number[]]>([
  [get, [200]],
  [on('HEAD / HTTP/1.1'), [200]],
  [`${on('POST / HTTP/1.1', 'Content-Length: 2\r\n')}{}`, [201]],
  [on('POST / HTTP/1.1', 'Content-Length: 2\r\n'), [413]],
  [on('POST / HTTP/1.1', 'Expect: 100-continue\r\nContent-Length: 2\r\n'), [413]],
  [on('GET / HTTP/1.1', 'Connection: close\r\n'), [200]],
  // A header that the framework has set.
  [on('GET / HTTP/1.1', 'Set: close\r\n'), [200]],
  [on('GET / HTTP/1.0'), [200]],
  [on('GET / HTTP/1.0', 'Connection: keep-alive\r\n'), [200]],
  [on('OPTIONS / HTTP/1.1'), [204]],
  [get, [304]],
  [get.repeat(3), [401, 304, 503]],
  [get + on('GET / HTTP/1.0'), [200, 200]],
])('the same bytes as Node: %j', async (text, statuses) => {
  const byNode: Write = (response, status) => void response.writeHead(status, headersOf(lines));
  const byUs: Write = (response, status) => sendHead(response, status, lines);
  const [expected, found] = await Promise.all([byNode, byUs].map((write) => serve(text, statuses, write)));
  expect(found).toEqual(expected);
});

test('the date changes with the second, and a Node without the field writes the head itself', () => {
  vi.useFakeTimers({ toFake: ['Date'] });
  onTestFinished(() => void vi.useRealTimers());
  const newResponse = () => {
    const response = new ServerResponse(new IncomingMessage(new net.Socket()));
    return Object.assign(response, { shouldKeepAlive: true });
  };
  for (const now of [0, 999, 1000, 1_795_132_799_999, 1_795_132_800_000, 5000]) {
    vi.setSystemTime(now);
    const response = newResponse();
    sendHead(response, 200, '');
    expect(Reflect.get(response, '_header')).toContain(`\r\nDate: ${new Date(now).toUTCString()}\r\n`);
  }
  const response = newResponse();
  Reflect.deleteProperty(response, '_header');
  const writeHead = vi.spyOn(response, 'writeHead').mockReturnThis();
  sendHead(response, 200, lines);
  expect(writeHead).toHaveBeenCalled();
});
