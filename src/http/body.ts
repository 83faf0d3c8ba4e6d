/** Reads request bodies: they must be JSON in UTF-8, or a form where the route takes one. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import fp from 'fastify-plugin';
import { ApiError, bodyTooLarge } from '../core/errors.ts';
import { readJson } from '../core/int64.ts';
import { hasBody, replyOn } from './connections.ts';
import { HttpError } from './errors.ts';

const token = "[!#$%&'*+.^_`|~0-9a-z-]+";
const parameter = `charset=(?:utf-?8|"utf-?8")|(?!charset=)${token}=(?:${token}|"(?:[^"\\\\]|\\\\.)*")`;

/** application/json with any parameters (RFC 9110, section 5.6.6), but no charset other than UTF-8, which many clients call utf8. */
const json = new RegExp(`^application/json(?:[ \\t]*;(?:[ \\t]*(?:${parameter}))?)*[ \\t]*$`, 'i');

/** What browsers send for a form (URL Standard, section 5.1). */
const form = /^application\/x-www-form-urlencoded(?:[ \t]*;[ \t]*charset=utf-?8)?$/i;

/** RFC 9110, section 15.5.16. */
const encoded = new HttpError('unsupported_media_type', { 'accept-encoding': 'identity' });

export const notObject = new ApiError('invalid_body', 'The body must be a JSON object.');
export const missing = new ApiError('invalid_body', 'The body is missing.');
const notForm = new ApiError('unsupported_media_type', 'The body must be application/x-www-form-urlencoded.');

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
  /** Lets the client send the body. Calls back with all bytes when they are there, or with ApiError `payload_too_large` as soon as there are too many. */
  read(done: (error: Error | null, bytes: Buffer) => void): void;
}

/**
 * Copies a body into one buffer as it arrives, and discards what is beyond `maxBytes`. Node keeps an object of 400 bytes for each chunk, which may be one
 * byte, until somebody reads it.
 */
function receive(request: IncomingMessage, response: ServerResponse, maxBytes: number): Content {
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
      // A server must ignore Expect: 100-continue in an HTTP/1.0 request (RFC 9110, section 10.1.1).
      if (request.headers.expect !== undefined && request.httpVersion === '1.1') response.writeContinue();
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

/** Receives the bodies of the whole server, and removes Fastify's own parsers. */
export const bodies = fp(async (app) => {
  app.removeAllContentTypeParsers();
  app.decorateRequest('content', null);
  // At once, whatever the response will be. The body of any method but POST is ignored (RFC 9110, section 9.3).
  app.addHook('onRequest', (request, reply, done) => {
    const { method, headers, raw, routeOptions } = request;
    if (hasBody(headers)) request.content = receive(raw, reply.raw, method === 'POST' ? routeOptions.bodyLimit : 0);
    done();
  });
});

/** Parses the bodies of POST in the scope of `app`. `parse` may throw ApiError. A request without a body has none to parse: undefined. */
export function addParser(app: FastifyInstance, parse: (bytes: Buffer) => unknown): void {
  app.addContentTypeParser('*', (request, _payload, done) => {
    const { content } = request;
    // Sent here: behind an error that it is called with, Fastify closes the connection. connections.ts does, if a part of the body is missing.
    const refuse = (error: unknown) => void replyOn(request.raw.socket).send(error);
    const fault = bodyFault(request);
    if (fault) return refuse(fault);
    const start = performance.now();
    const finish = (error: Error | null, bytes: Buffer = nothing) => {
      request.bodyMs = performance.now() - start;
      if (error) return refuse(error);
      let body: unknown;
      try {
        body = parse(bytes);
      } catch (thrown) {
        return refuse(thrown);
      }
      done(null, body);
    };
    if (content) content.read(finish);
    else finish(null);
  });
}

/** Parses JSON; returns undefined if there is none. Throws ApiError `invalid_json`, or `invalid_body` for `null`, which validation takes for a missing body. */
export function parseJson(bytes: Buffer): unknown {
  if (bytes.length === 0) return undefined;
  let value: unknown;
  try {
    value = readJson(bytes);
  } catch (error) {
    throw new ApiError('invalid_json', `The body is ${(error as Error).message}.`);
  }
  if (value === null) throw notObject;
  return value;
}
