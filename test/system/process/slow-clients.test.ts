/** Tests clients that are slow or silent, with a real process, real sockets and real time. */
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { sideBySide } from '../../support/client.ts';
import { converse, rawGet, rawPost, summaryOf } from '../../support/raw.ts';
import { makeStore, serve } from '../../support/store-file.ts';
import { tier } from '../../support/tier.ts';

/** A request must arrive within 9 s. */
const withinMs = 12_000;
const pet = '{"name":"Biscuit","categoryId":7}';
const late = '408 request_timeout';

/** The parts that each client sends, one per second, and the responses it gets before the server closes the connection; 408 unless given. */
function slowClients(key: string): Record<string, [parts: string[], answers?: string]> {
  const get = rawGet(key, '/v1/pets');
  const counted = rawPost(key, '', pet.length);
  const chunked = counted.replace(/Content-Length: \d+/, 'Transfer-Encoding: chunked');
  const chunk = `${pet.length.toString(16)}\r\n${pet}\r\n`;
  const long = pet + ' '.repeat(32 * 1024);
  const closing = rawPost(key, '', long.length).replace('\r\n\r\n', '\r\nConnection: close\r\n\r\n');
  return {
    'a pause of five seconds within a body': [[closing + long.slice(0, -1), ...Array(4).fill(''), ' '], '201'],
    'no byte at all': [['']],
    'one byte of the request line per second': [[...'GET /v1/pets?limit=100']],
    'silence within the request line': [['GET /v1']],
    'one byte of the headers per second': [['GET /v1/pets HTTP/1.1\r\n', ...'Host: localhost']],
    'one header per second': [['GET /v1/pets HTTP/1.1\r\n', ...Array(20).fill('X: y\r\n')]],
    'silence before the body': [[counted]],
    'one byte of the body per second': [[counted, ...pet]],
    'silence within the body': [[counted + pet.slice(0, -1)]],
    'one chunk of a body per second': [[chunked, ...[...pet].map((byte) => `1\r\n${byte}\r\n`)]],
    'silence within a chunk of a body': [[chunked + chunk.slice(0, 12)]],
    'silence before the last chunk of a body': [[chunked + chunk]],
    'silence after 100 Continue': [[counted.replace('\r\n\r\n', '\r\nExpect: 100-continue\r\n\r\n')], `100, ${late}`],
    'silence within a second request': [[get + get.slice(0, -2)], `200, ${late}`],
    'silence within the refused body of a request': [
      [counted.replace(key, 'no') + pet.slice(1)],
      '401 invalid_api_key',
    ],
    'one byte of a refused body per second': [[counted.replace(key, 'no'), ...pet], '401 invalid_api_key'],
  };
}

test('slow and silent clients get 408 and are disconnected, and others are served meanwhile', async () => {
  const { port, key, get, add } = await serve(await makeStore(), 2);
  let over = false;
  const others = sideBySide(2, async (index) => {
    for (; !over; await sleep(100)) {
      expect((await (index === 0 ? get('/v1/pets?limit=1') : add('x'))).status).toBe(index === 0 ? 200 : 201);
    }
  });
  const kinds = Object.entries(slowClients(key));
  const clients = Array.from(Array(tier(5, 25)), () => kinds).flat();
  const silent = Array.from(Array(500), () => ['no byte at all', [['']]] as (typeof kinds)[0]);
  await Promise.all(
    [...clients, ...silent].map(async ([name, [parts, expected = late]], at) => {
      // All at once, on a busy machine some would be refused: that is the test of overload.
      await sleep(4 * at);
      const begun = performance.now();
      const answers = await converse(port, parts, { answers: Infinity, gapMs: 1000, deadlineMs: 60_000 });
      expect([name, answers.map(summaryOf).join(', ')]).toEqual([name, expected]);
      expect(performance.now() - begun, name).toBeLessThan(withinMs);
    }),
  );
  over = true;
  await others;
});
