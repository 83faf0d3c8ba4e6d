/**
 * The shortest way for what most requests are: a read with a known key and nothing unusual about it, or a call without any key.
 * It answers what Fastify's way would, byte for byte, and leaves to that way whatever is not as plain, and whatever fails.
 */
import { randomUUID } from 'node:crypto';
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import type { FastifyInstance } from 'fastify';
import { type ApiKey, refusal } from '../accounts.ts';
import type { PetQuery } from '../pets.ts';
import { standingHeaders } from './answers.ts';
import { missing } from './auth.ts';
import { deprecationHeaders } from './deprecation.ts';
import { failureHeaders } from './errors.ts';
import { fault } from './front.ts';
import type { KeyUses } from './key-uses.ts';
import type { Keyring } from './keyring.ts';
import { readCursor } from './paging.ts';
import type { PetAnswers } from './pet-answers.ts';
import type { Rendered } from './rendered.ts';
import { type Observe, traceIdOf } from './request-log.ts';
import { admit } from './unread.ts';

export interface PlainReadOptions {
  answers: PetAnswers;
  keyring: Keyring;
  uses: KeyUses;
  observe: Observe;
  now: () => Date;
  /** What the addresses in answers start with. */
  base: string;
  /** Whether getPet has been removed by now. */
  removed: () => boolean;
  /** Whether clients are asked to go elsewhere. */
  draining: () => boolean;
}

interface Read {
  route: string;
  deprecated: boolean;
  answer: () => Promise<Rendered> | Rendered;
}

interface Call {
  read: Read;
  response: ServerResponse;
  traceId: string | undefined;
  /** As performance.now() gave it. */
  begun: number;
}

/** A list as its own Link writes it. */
const list = /^\/v1\/pets(?:\?limit=(100|[1-9]\d?)(?:&status=(available|pending|sold))?(?:&cursor=([\w-]+))?)?$/;
const animal = /^\/v1\/pets\/([1-9]\d{0,17})$/;

function queryOf([, limit = '20', status, cursor]: RegExpExecArray): PetQuery | undefined {
  const after = cursor === undefined ? 0n : readCursor(cursor);
  return after === undefined ? undefined : { limit: Number(limit), status: status as PetQuery['status'], after };
}

/** Whether nothing is to be judged of a request but its URL and its key. */
function isPlain(request: IncomingMessage): boolean {
  const { headers } = request;
  return (
    request.method === 'GET' &&
    headers.expect === undefined &&
    headers['transfer-encoding'] === undefined &&
    headers['content-length'] === undefined &&
    headers['if-none-match'] === undefined &&
    fault(request) === undefined
  );
}

const flat = (headers: Record<string, string>) => Object.entries(headers).flat();

const missingBody = Buffer.from(JSON.stringify(missing.body()));
const { 'x-request-id': _, ...missingHeaders } = failureHeaders(missing, '');
const missingKey = {
  headers: [...flat(missingHeaders), 'content-length', String(missingBody.length)],
  body: missingBody,
};

/** Takes the plain reads from `app`, which goes on to serve all other requests. */
export function servePlainReads(app: FastifyInstance, options: PlainReadOptions): void {
  const { answers, keyring, uses, observe, now, base, removed, draining } = options;
  const standing = flat(standingHeaders);
  const deprecation = flat(deprecationHeaders(base));
  const { server } = app;
  const [fastify] = server.listeners('request') as [RequestListener];
  server.removeAllListeners('request');

  function readOf(url: string): Read | undefined {
    const page = list.exec(url);
    if (page) {
      const query = queryOf(page);
      return query && { route: '/v1/pets', deprecated: false, answer: () => answers.page(query) };
    }
    const id = removed() ? undefined : animal.exec(url)?.[1];
    if (id === undefined) return undefined;
    return { route: '/v1/pets/:petId', deprecated: true, answer: () => answers.animal(BigInt(id)) };
  }

  /** The key of a request that may read; undefined where there is more to say about it. */
  function readerOf(authorization: string): ApiKey | undefined {
    const key = keyring.recall(authorization);
    return key && !refusal(key, now()) && key.scopes.includes('pets:read') ? key : undefined;
  }

  function send(
    { read, response, begun, traceId }: Call,
    status: number,
    headers: string[],
    body: Buffer,
    key?: ApiKey,
  ): void {
    const reqId = randomUUID();
    const { route, deprecated } = read;
    response.writeHead(status, ['x-request-id', reqId, ...headers, ...(deprecated ? deprecation : [])]).end(body);
    response.once('close', () => {
      observe({ reqId, method: 'GET', route, status, ms: performance.now() - begun, key: key?.id, traceId });
    });
  }

  function sendRead(call: Call, { headers, bodyHeaders, body }: Rendered, key: ApiKey): void {
    admit(body, call.response);
    uses.count(key);
    if (call.read.deprecated) uses.countDeprecated(key);
    send(call, 200, [...standing, ...headers, ...bodyHeaders], body, key);
  }

  server.on('request', (request, response) => {
    const begun = performance.now();
    const pass = () => fastify(request, response);
    const read = draining() || !isPlain(request) ? undefined : readOf(request.url as string);
    if (!read) return pass();
    const { authorization, traceparent } = request.headers;
    const call = { read, response, begun, traceId: traceIdOf(traceparent) };
    if (authorization === undefined) return send(call, 401, missingKey.headers, missingKey.body);
    const key = readerOf(authorization);
    if (!key) return pass();
    try {
      const answer = read.answer();
      if (answer instanceof Promise) answer.then((rendered) => sendRead(call, rendered, key)).catch(pass);
      else sendRead(call, answer, key);
    } catch {
      pass();
    }
  });
}
