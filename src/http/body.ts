/** Reads request bodies: they must be JSON in UTF-8, or a form where the route takes one. Otherwise the response is 415. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { ApiError, bodyTooLarge } from '../core/errors.ts';
import { readJson } from '../core/int64.ts';
import { HttpError } from './errors.ts';
import type { Shares } from './shares.ts';

const token = "[!#$%&'*+.^_`|~0-9a-z-]+";
const parameter = `charset=(?:utf-8|"utf-8")|(?!charset=)${token}=(?:${token}|"(?:[^"\\\\]|\\\\.)*")`;

/** application/json with any parameters (RFC 9110, section 5.6.6), but no charset other than UTF-8. */
const json = new RegExp(`^application/json(?:[ \\t]*;(?:[ \\t]*(?:${parameter}))?)*[ \\t]*$`, 'i');

/** What browsers send for a form (URL Standard, section 5.1). */
const form = /^application\/x-www-form-urlencoded(?:[ \t]*;[ \t]*charset=utf-8)?$/i;

/** RFC 9110, section 15.5.16. */
const isEncoded = new HttpError('unsupported_media_type', { 'accept-encoding': 'identity' });

const notForm = new ApiError('unsupported_media_type', 'The body must be application/x-www-form-urlencoded.');

/** Why the headers alone reject a body, or undefined. */
function bodyFault({ headers, routeOptions }: FastifyRequest): ApiError | undefined {
  const { 'content-type': type, 'content-encoding': coding, 'content-length': length } = headers;
  const { bodyLimit, config } = routeOptions;
  if (config.form) {
    if (!form.test(type ?? '')) return notForm;
  } else if (type !== undefined && !json.test(type)) return new ApiError('unsupported_media_type');
  if (coding !== undefined && !/^identity$/i.test(coding)) return isEncoded;
  if (length !== undefined && Number(length) > bodyLimit)
    return new ApiError('payload_too_large', bodyTooLarge(bodyLimit));
  return undefined;
}

/** Counts a body while it arrives. Throws ApiError `service_unavailable` if too many do. */
function countBody(request: IncomingMessage, response: ServerResponse, shares: Shares): void {
  // The client disconnected before its API key was looked up; or the body arrived while its request was held, and a turn serves a thousand such.
  if (request.complete || response.destroyed) return;
  const { holder } = request.record;
  shares.claim(holder, 'bodies');
  const giveBack = () => {
    request.off('close', giveBack);
    response.off('close', giveBack);
    shares.give(holder, 'bodies');
  };
  request.once('close', giveBack);
  // Node forgets a request whose response ends before its body, such as a 408: it never closes.
  response.once('close', giveBack);
}

/** Goes on with a request whose body has arrived. What the client took to send it is no time of the server's. */
export function afterBody(app: FastifyInstance, request: IncomingMessage, run: () => void): void {
  request.record.begun = performance.now();
  app.resume(request, run);
}

/**
 * Reads JSON bodies of POST. Before a body is read, rejects with ApiError `unsupported_media_type` or `payload_too_large`, and sends 404 for an
 * unknown path; afterwards `invalid_json`. A missing body is undefined, for the validation to report.
 */
export function installBody(app: FastifyInstance): void {
  app.removeAllContentTypeParsers();

  app.addHook('preParsing', (request, reply, payload, done) => {
    // Here, because the not-found handler would run only after the body is read.
    if (request.is404) return app.notFound(request, reply);
    // The body of any other method is ignored, whatever its type (RFC 9110, section 9.3).
    if (request.method !== 'POST') return done();
    const { headers, routeOptions } = request;
    // No length or 0, and no transfer coding (RFC 9112, section 6.3).
    const isEmpty = !Number(headers['content-length']) && headers['transfer-encoding'] === undefined;
    // Validation reports that the body is missing, whatever its type, and however its length is written: 00 is a zero, too.
    if (isEmpty && !routeOptions.config.form) delete headers['content-type'];
    if (isEmpty) delete headers['content-length'];
    const error = bodyFault(request);
    if (error) return done(error);
    if (!isEmpty) countBody(request.raw, reply.raw, app.shares);
    // A server must ignore Expect: 100-continue in an HTTP/1.0 request (RFC 9110, section 10.1.1).
    if (headers.expect !== undefined && request.raw.httpVersion === '1.1') reply.raw.writeContinue();
    // optimizeEmptyRequests (server.ts) has closed the request's own stream, which never emits end.
    done(null, isEmpty ? Readable.from([]) : payload);
  });

  app.addContentTypeParser<Buffer>('application/json', { parseAs: 'buffer' }, ({ raw }, bytes, done) => {
    // An empty body counts as missing. Validation reports it.
    if (bytes.length === 0) return done(null, undefined);
    afterBody(app, raw, () => {
      let body: unknown;
      try {
        body = readJson(bytes);
      } catch (error) {
        return done(new ApiError('invalid_json', `The body is ${(error as Error).message}.`));
      }
      done(null, body);
    });
  });
}
