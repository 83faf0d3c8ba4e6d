/** Requests as text, in which KEY stands for the API key of the test. */
import type { TestApp } from '../../support/app.ts';

export const host = 'Host: animals.example\r\n';
export const key = 'Authorization: Bearer KEY\r\n';
export const open = host + key;
export const json = 'Content-Type: application/json\r\n';
export const pet = '{"name":"Biscuit","categoryId":7}';

/** The headers of a request, and the empty line behind them. */
export const ask = (line: string, headers = open, version = '1.1') => `${line} HTTP/${version}\r\n${headers}\r\n`;
export const get = (target: string, headers?: string) => ask(`GET ${target}`, headers);
export const lengthOf = (body: string) => `Content-Length: ${Buffer.byteLength(body, 'latin1')}\r\n`;
export const post = (body = pet, more = '') => ask('POST /v1/pets', open + json + more + lengthOf(body)) + body;

export const statusesOf = (all: string) =>
  [...all.matchAll(/HTTP\/1\.1 (\d{3}) /g)].map(([, status]) => Number(status));

/** Adds a page of animals that is longer than what the kernel keeps for a client: 20 MB. */
export async function addLong({ pets }: TestApp['store']): Promise<void> {
  for (let count = 0; count < 100; count += 1)
    await pets.add({ name: 'x'.repeat(200_000), categoryId: 1n, status: 'sold' });
}
