/** Offers a response in two content codings: gzip to clients that accept it, and none. For public texts only: see docs/decisions/compression.md. */
import { gzipSync } from 'node:zlib';
import type { FastifyRequest } from 'fastify';
import { type Kind, type Rendered, render } from '../http/responses.ts';

export interface Codings {
  plain: Rendered;
  gzip: Rendered;
}

/** Compresses `content` now, which takes about 1 ms for 100 kB. Each coding has its own ETag, because its bytes differ. */
export function renderCodings(content: string | Buffer, kind: Kind = {}): Codings {
  const both = { ...kind, isPublic: true, vary: 'Accept-Encoding' };
  return { plain: render(content, both), gzip: render(gzipSync(content), { ...both, encoding: 'gzip' }) };
}

/** Whether Accept-Encoding names gzip, with any weight but 0 (RFC 9110, section 12.5.3). */
function acceptsGzip({ headers }: FastifyRequest): boolean {
  return /\bgzip\b(?!\s*;\s*q=0(?:\.0*)?\s*(?:,|$))/i.test(headers['accept-encoding'] ?? '');
}

export function chooseCoding(request: FastifyRequest, { plain, gzip }: Codings): Rendered {
  return acceptsGzip(request) ? gzip : plain;
}
