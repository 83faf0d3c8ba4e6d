/** Tests clients that are slow or silent, with a real process, real sockets and real time. */
import { expect, test } from 'vitest';
import { type Server, startServer } from '../../support/process.ts';
import { converse, summaryOf } from '../../support/raw.ts';
import { figure, tier } from '../../support/tier.ts';

const withinMs = 60_000;
const pet = '{"name":"Biscuit","categoryId":7}';
const chunk = `${pet.length.toString(16)}\r\n${pet}\r\n`;

/** The parts that each client sends, one per second, and the responses it gets before the server closes the connection. */
function slowClients(key: string): Record<string, [parts: string[], answers: string]> {
  const rest = `/v1/pets HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${key}\r\n`;
  const json = `POST ${rest}Content-Type: application/json\r\n`;
  const counted = `${json}Content-Length: ${pet.length}\r\n`;
  const chunked = `${json}Transfer-Encoding: chunked\r\n\r\n`;
  const late = '408 request_timeout';
  return {
    'no byte at all': [[''], late],
    'one byte of the request line per second': [[...'GET /v1/pets?limit=100'], late],
    'silence within the request line': [['GET /v1'], late],
    'one byte of the headers per second': [['GET /v1/pets HTTP/1.1\r\n', ...'Host: localhost'], late],
    'one header per second': [['GET /v1/pets HTTP/1.1\r\n', ...Array(20).fill('X: y\r\n')], late],
    'silence within the headers': [[`GET ${rest}`], late],
    'silence before the body': [[`${counted}\r\n`], late],
    'one byte of the body per second': [[`${counted}\r\n`, ...pet], late],
    'silence within the body': [[`${counted}\r\n${pet.slice(0, -1)}`], late],
    'silence before the first chunk': [[chunked], late],
    'one chunk per second': [[chunked, ...[...pet].map((byte) => `1\r\n${byte}\r\n`)], late],
    'silence within a chunk': [[chunked + chunk.slice(0, 12)], late],
    'silence before the last chunk': [[chunked + chunk], late],
    'silence after 100 Continue': [[`${counted}Expect: 100-continue\r\n\r\n`], `100, ${late}`],
    'silence within a second request': [[`GET ${rest}\r\nGET ${rest}`], `200, ${late}`],
    'silence within the body of a refused request': [
      [`${counted.replace(key, 'none')}\r\n${pet.slice(0, -1)}`],
      '401 invalid_api_key',
    ],
  };
}

/** Sends `parts` one second apart, and expects these responses and a closed connection. Resolves to the time in milliseconds. */
async function runClient(port: number, name: string, parts: string[], expected: string): Promise<number> {
  const begun = performance.now();
  const answers = await converse(port, parts, { answers: Infinity, gapMs: 1000, deadlineMs: withinMs });
  expect([name, answers.map(summaryOf).join(', ')]).toEqual([name, expected]);
  return performance.now() - begun;
}

/** Sends about ten GETs and ten POSTs per second until the returned function is called. All must succeed. */
function startOtherClients(server: Server, key: string): () => Promise<{ asked: number; slowestMs: number }> {
  const times: number[] = [];
  let stopped = false;
  async function ask(expected: number, ...request: [method: string, path: string, body?: object]): Promise<void> {
    while (!stopped) {
      const begun = performance.now();
      expect((await server.call(key, ...request)).status).toBe(expected);
      times.push(performance.now() - begun);
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }
  const asking = Promise.all([
    ask(200, 'GET', '/v1/pets?limit=1'),
    ask(201, 'POST', '/v1/pets', { name: 'x', categoryId: 1 }),
  ]);
  return async () => {
    stopped = true;
    await asking;
    return { asked: times.length, slowestMs: Math.max(...times) };
  };
}

test('slow and silent clients get 408 and are disconnected, and others are served meanwhile', async () => {
  const server = await startServer();
  const key = await server.firstKey();
  const stop = startOtherClients(server, key);
  const kinds = Object.entries(slowClients(key));
  const clients = Array.from({ length: tier(5, 50) }, () => kinds).flat();
  const silent = Array.from({ length: 500 }, () => kinds[0] as (typeof kinds)[0]);
  const times = await Promise.all(
    [...clients, ...silent].map(([name, [parts, expected]]) => runClient(server.port, name, parts, expected)),
  );
  const { asked, slowestMs } = await stop();
  const last = (Math.max(...times) / 1000).toFixed(1);
  figure(
    `${clients.length} slow clients of ${kinds.length} kinds and 500 silent ones: the last was disconnected after ${last} s`,
  );
  figure(`${asked} requests of others meanwhile all succeeded, the slowest in ${Math.round(slowestMs)} ms`);
}, 60_000);
