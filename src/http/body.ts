/** Reads request bodies: they must be JSON in UTF-8, or a form where the route takes one. */
import type { IncomingMessage } from 'node:http';
import type { FastifyInstance, FastifyRequest, onRequestHookHandler, preParsingHookHandler } from 'fastify';
import fp from 'fastify-plugin';
import { ApiError, bodyTooLarge } from '../core/errors.ts';
import { readJson } from '../core/int64.ts';
import { hasBody } from './connections.ts';
import { HttpError } from './errors.ts';

const token = "[!#$%&'*+.^_`|~0-9a-z-]+";
const parameter = `charset=(?:utf-?8|"utf-?8")|(?!charset=)${token}=(?:${token}|"(?:[^"\\\\]|\\\\.)*")`;

/** application/json with any parameters (RFC 9110, section 5.6.6), but no charset other than UTF-8, which many clients call utf8. */
const json = new RegExp(`^application/json(?:[ \\t]*;(?:[ \\t]*(?:${parameter}))?)*[ \\t]*$`, 'i');

/** What browsers send for a form (URL Standard, section 5.1). */
const form = /^application\/x-www-form-urlencoded(?:[ \t]*;[ \t]*charset=utf-?8)?$/i;

/** RFC 9110, section 15.5.16. */
const encoded = new HttpError('unsupported_media_type', { 'accept-encoding': 'identity' });

const notForm = new ApiError('unsupported_media_type', 'The body must be application/x-www-form-urlencoded.');
const missing = new ApiError('invalid_body', 'The body is missing.');

/** Why the headers alone reject a body, or undefined. */
function bodyFault({ headers, routeOptions, content }: FastifyRequest): ApiError | undefined {
  const { 'content-type': type, 'content-encoding': coding, 'content-length': length } = headers;
  const { bodyLimit, config } = routeOptions;
  if (config.form) {
    if (!form.test(type ?? '')) return notForm;
  } else if (content && !json.test(type ?? '')) return new ApiError('unsupported_media_type');
  if (coding !== undefined && !/^identity$/i.test(coding)) return encoded;
  if (length !== undefined && Number(length) > bodyLimit) return tooLarge(bodyLimit);
  return undefined;
}

const tooLarge = (bodyLimit: number) => new ApiError('payload_too_large', bodyTooLarge(bodyLimit));

const nothing = Buffer.alloc(0);

/** A body that arrives. */
interface Content {
  /** Calls back with all bytes when they are there, or with ApiError `payload_too_large` as soon as there are too many. */
  read(done: (error: Error | null, bytes: Buffer) => void): void;
}

/**
 * Copies a body into one buffer as it arrives, and discards what is beyond `maxBytes`. Node keeps an object of 400 bytes for each chunk, which may be one
 * byte, until somebody reads it.
 */
function receive(request: IncomingMessage, maxBytes: number): Content {
  let bytes: Buffer = nothing;
  let length = 0;
  let report: (() => void) | undefined;
  request.on('data', (chunk: Buffer) => {
    const start = length;
    length += chunk.length;
    if (length > maxBytes) {
      bytes = nothing;
      report?.();
    } else if (start === 0) bytes = chunk;
    else {
      if (length > bytes.length) {
        const larger = Buffer.allocUnsafeSlow(Math.min(maxBytes, 2 * length));
        bytes.copy(larger, 0, 0, start);
        bytes = larger;
      }
      chunk.copy(bytes, start);
    }
  });
  request.once('end', () => report?.());
  return {
    read(done) {
      report = () => {
        report = undefined;
        if (length > maxBytes) done(tooLarge(maxBytes), nothing);
        else done(null, bytes.subarray(0, length));
      };
      if (request.readableEnded || length > maxBytes) report();
    },
  };
}

declare module 'fastify' {
  interface FastifyRequest {
    /** Null if the request has no body. */
    content: Content | null;
  }
}

/** Before a body is read: rejects it by what its headers say, and lets the client send it. */
const checkBody: preParsingHookHandler = (request, reply, payload, done) => {
  const { headers, content, routeOptions, raw } = request;
  // The response says that the body is missing, whatever its type.
  if (!content && !routeOptions.config.form) delete headers['content-type'];
  if (!content) delete headers['content-length'];
  const error = bodyFault(request);
  // A server must ignore Expect: 100-continue in an HTTP/1.0 request (RFC 9110, section 10.1.1).
  if (!error && headers.expect !== undefined && raw.httpVersion === '1.1') reply.raw.writeContinue();
  // The start of the body's time: addParser adds the end.
  request.bodyMs = -reply.elapsedTime;
  done(error ?? null, payload);
};

/** Receives the bodies of the whole server, and removes Fastify's own parsers. */
export const bodies = fp(async (app) => {
  app.removeAllContentTypeParsers();
  app.decorateRequest('content', null);
  // At once, whatever the response will be. The body of any method but POST is ignored (RFC 9110, section 9.3).
  app.addHook('onRequest', (request, _reply, done) => {
    const { method, headers, raw, routeOptions } = request;
    if (hasBody(headers)) request.content = receive(raw, method === 'POST' ? routeOptions.bodyLimit : 0);
    done();
  });
  app.addHook('onRoute', (route) => {
    if (route.method === 'POST') route.preParsing = [checkBody, ...[route.preParsing ?? []].flat()];
  });
});

/**
 * Parses the bodies of POST in the scope of `app`. `parse` may throw ApiError; it gets no bytes if there is no body. `wait` calls back when it may run: to
 * parse a body takes up to 10 ms.
 */
export function addParser(app: FastifyInstance, parse: (bytes: Buffer) => unknown, wait?: onRequestHookHandler): void {
  app.addContentTypeParser('*', (request, _payload, done) => {
    if (!request.content) return done(null, nothing);
    request.content.read(done);
  });
  app.addHook('preValidation', (request, reply, done) => {
    if (request.method !== 'POST') return done();
    request.bodyMs += reply.elapsedTime;
    const run = (refusal?: Error) => {
      if (refusal) return done(refusal);
      try {
        // Fastify skips the parser if there is neither a type nor a body.
        request.body = parse((request.body as Buffer | undefined) ?? nothing);
        done();
      } catch (error) {
        done(error as Error);
      }
    };
    if (wait && request.content) wait.call(app, request, reply, run);
    else run();
  });
}

/** Parses JSON. Throws ApiError `invalid_json`, or `invalid_body` if there is none: Fastify's validation does not tell that from `null`. */
export function parseJson(bytes: Buffer): unknown {
  if (bytes.length === 0) throw missing;
  try {
    return readJson(bytes);
  } catch (error) {
    throw new ApiError('invalid_json', `The body is ${(error as Error).message}.`);
  }
}
