/** Tests overload: 3,000 clients that create. */
import { expect, test } from 'vitest';
import { openClient } from '../support/client.ts';
import { findPort, firstAnswer } from '../support/known-port.ts';
import { loadWith } from '../support/many-clients.ts';
import { percentile } from '../support/percentile.ts';
import { launchServer } from '../support/process.ts';
import { makeStore } from '../support/store-file.ts';
import { figure, tier } from '../support/tier.ts';

const clients = 3000;
const seconds = Number(process.env.OVERLOAD_SECONDS ?? tier(0, 60));
const peakSeconds = 5;

function additionWith(key: string): () => string {
  const body = '{"name":"Biscuit","categoryId":7}';
  const headers = `Host: localhost\r\nAuthorization: Bearer ${key}\r\nContent-Type: application/json\r\n`;
  const request = `POST /v1/pets HTTP/1.1\r\n${headers}Content-Length: ${body.length}\r\n\r\n${body}`;
  return () => request;
}

/** `peak`: creates per second with 64 clients; `outcomes`: all outcomes with too many clients. */
async function overload() {
  const { key, env } = await makeStore();
  const port = await findPort();
  // At level warn, because the test keeps the log in memory.
  const server = launchServer({ env: { ...env, PORT: String(port), LOG_LEVEL: 'warn' } });
  await firstAnswer(server, openClient(`http://127.0.0.1:${port}`, key, 1));
  const load = { port, next: additionWith(key) };
  await loadWith({ ...load, clients: 64, seconds: 2 });
  const before = await loadWith({ ...load, clients: 64, seconds: peakSeconds });
  const outcomes = await loadWith({ ...load, clients, seconds });
  // The peak is the mean of before and after, because the load of the machine may change.
  const after = await loadWith({ ...load, clients: 64, seconds: peakSeconds });
  return { peak: (before.length + after.length) / (2 * peakSeconds), outcomes };
}

test(
  'at three times its capacity a server keeps four fifths of its throughput, and refuses the rest with 503 and Retry-After',
  async () => {
    const { peak, outcomes } = await overload();
    const accepted = outcomes.filter(({ status }) => status === 201).map(({ ms }) => ms);
    const others = outcomes.filter(({ status }) => status !== 201);
    const share = accepted.length / seconds / peak;
    const p99 = percentile(accepted, 99);
    figure(
      `${clients} clients for ${seconds} s: ${(share * 100).toFixed(0)} % of the ${Math.round(peak)} creates per second that 64 clients get, p99 ${Math.round(p99)} ms; ${others.length} refused`,
    );
    expect(new Set(others.map(({ status, retryAfter }) => `${status}, again after ${retryAfter} s`))).toEqual(
      new Set(['503, again after 1 s']),
    );
    expect(share).toBeGreaterThan(0.8);
    expect(p99).toBeLessThan(5000);
  },
  (seconds + 60) * 1000,
);
