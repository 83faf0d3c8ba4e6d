/** Keeps what the tests send and what they are answered, for whoever else is to judge it (npm run test:prism). */
import { appendFileSync } from 'node:fs';
import type { Answer } from './documented.ts';

export interface Exchange {
  method: string;
  target: string;
  headers: Record<string, string | string[]>;
  /** Base64; null where there was no body. */
  body: string | null;
  answer: Answer;
}

/** EXCHANGES names the file, one JSON text a line, which several processes may write to; without it nothing is kept. */
export function keepExchange({ body, ...exchange }: Omit<Exchange, 'body'> & { body: unknown }): void {
  if (process.env.EXCHANGES === undefined) return;
  const bytes = body === undefined || body === null ? null : Buffer.from(body as string).toString('base64');
  appendFileSync(process.env.EXCHANGES, `${JSON.stringify({ ...exchange, body: bytes })}\n`);
}
