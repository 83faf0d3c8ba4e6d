/** Records the requests and responses of the tests, which npm run test:contract validates. */
import { appendFileSync } from 'node:fs';
import type { Answer } from './documented.ts';

export interface Exchange {
  method: string;
  target: string;
  headers: Record<string, string | string[]>;
  /** Base64; null if there was no body. */
  body: string | null;
  answer: Answer;
}

/** Appends the exchange as one line of JSON to the file that EXCHANGES names, if it is set. Several processes can write to it. */
export function keepExchange({ body, ...exchange }: Omit<Exchange, 'body'> & { body: unknown }): void {
  if (process.env.EXCHANGES === undefined) return;
  const bytes = body === undefined || body === null ? null : Buffer.from(body as string).toString('base64');
  appendFileSync(process.env.EXCHANGES, `${JSON.stringify({ ...exchange, body: bytes })}\n`);
}
