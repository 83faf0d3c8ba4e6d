/** Tests that pages of CORS_ORIGINS can read the errors of a request that times out, and of a server whose event loop is blocked. */
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { startServer } from '../../support/process.ts';
import { converse, type RawAnswer, summaryOf } from '../../support/raw.ts';
import { patientMs } from '../../support/tier.ts';

const origin = 'https://app.example.com';
const headers = `Host: localhost\r\nOrigin: ${origin}\r\n`;

const start = () => startServer({ env: { CORS_ORIGINS: `https://b.example.com,${origin}` } });

function expectReadable({ headers }: RawAnswer): void {
  expect(headers).toMatchObject({
    'access-control-allow-origin': origin,
    'access-control-expose-headers': expect.stringContaining('Retry-After'),
    vary: 'Origin',
  });
}

test(
  '408 of a body that does not arrive',
  async () => {
    const server = await start();
    const authorization = `Authorization: Bearer ${await server.firstKey()}\r\n`;
    const json = 'Content-Type: application/json\r\nContent-Length: 9\r\n';
    const sent = `POST /v1/pets HTTP/1.1\r\n${headers}${authorization}${json}\r\n{`;
    const [answer] = await converse(server.port, [sent], { deadlineMs: patientMs });
    expect(summaryOf(answer as RawAnswer)).toBe('408 request_timeout');
    expectReadable(answer as RawAnswer);
  },
  patientMs,
);

test(
  '503 of a blocked event loop',
  async () => {
    const { pid, port } = await start();
    const ask = () => converse(port, [`GET /v1/pets HTTP/1.1\r\n${headers}\r\n`], { deadlineMs: patientMs });
    let answer: RawAnswer | undefined;
    // The mean delay of a whole interval must be above a second: stopped processes run no timer.
    while (answer?.status !== 503) {
      process.kill(pid, 'SIGSTOP');
      const asked = ask();
      await sleep(1300);
      process.kill(pid, 'SIGCONT');
      [answer] = await asked;
    }
    expect(summaryOf(answer)).toBe('503 service_unavailable');
    expectReadable(answer);
  },
  patientMs,
);
