/** Checks every request before its route and API key: the length of the URL, the framing, the host, and the header Expect. */
import type { IncomingMessage } from 'node:http';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { ApiError } from '../core/errors.ts';
import { limits } from '../core/limits.ts';
import { absoluteFormOf, hostOf, hostSyntax, type ServesHost } from './hosts.ts';
import { HttpError } from './http-error.ts';
import type { App } from './operation.ts';
import type { RequestRecord } from './request-record.ts';

declare module 'fastify' {
  interface FastifyRequest {
    record: RequestRecord;
    /** The lines of the headers that each response of the route carries. */
    routeHeaders: string;
    /** The lines of the headers that this response carries, whatever its route. */
    ownHeaders: string;
  }
  interface FastifyContextConfig {
    /** The lines of the headers of each response of the route, whatever its status. */
    headers?: string;
  }
}

const close = { connection: 'close' };

const otherHost = new HttpError(
  'bad_request',
  close,
  'The host of this request is not served here. The operator can add it to ALLOWED_HOSTS, or name it in BASE_URL.',
);

/** What is wrong with a request that Node's parser accepts, or undefined. */
function fault({ httpVersion, headers }: IncomingMessage): string | undefined {
  if (httpVersion !== '1.1' && httpVersion !== '1.0') return 'The version of HTTP must be 1.1 or 1.0.';
  // RFC 9112, section 3.2: exactly one valid Host, except in HTTP/1.0.
  if (headers.host === undefined ? httpVersion === '1.1' : !hostSyntax.test(headers.host)) {
    return 'The request must have exactly one Host header, with a valid value.';
  }
  // RFC 9112, section 6.1: HTTP/1.0 has no transfer codings, and an unknown coding cannot be decoded.
  const coding = headers['transfer-encoding'];
  if (coding !== undefined && (httpVersion === '1.0' || !/^chunked$/i.test(coding))) {
    return 'The only supported transfer coding is chunked, and only in HTTP/1.1.';
  }
  return undefined;
}

const foreignTarget = new HttpError('bad_request', close, 'The URL and the header Host name different hosts.');

const fragment = new ApiError('invalid_url', 'The URL of a request has no fragment: send a # in it as %23.');

const otherScheme = new HttpError('bad_request', close, 'This port serves http:// only: the URL names another scheme.');

const withoutDefaultPort = (authority: string) => authority.toLowerCase().replace(/:(?:80)?$/, '');

/** Why the form of the target is rejected (RFC 9112, section 3.2; RFC 9110, section 7.4), or undefined. */
function targetFault({ url = '', headers: { host } }: IncomingMessage, servesHost?: ServesHost): ApiError | undefined {
  if (url.includes('#')) return fragment;
  const target = absoluteFormOf(url);
  if (!target) return undefined;
  if (target.scheme !== 'http') return otherScheme;
  if (servesHost) return undefined;
  // Section 3.2.2 has the server ignore Host. Without a list of hosts, that would accept requests for any other server. The router rejects an
  // authority that is not valid.
  const isValid = target.authority !== '' && hostSyntax.test(target.authority);
  const differs = host !== undefined && withoutDefaultPort(target.authority) !== withoutDefaultPort(host);
  return isValid && differs ? foreignTarget : undefined;
}

/** Returns a function: why a request is rejected regardless of its route, or undefined. If `servesHost` is undefined, every host is served. */
export function createCheck(servesHost: ServesHost | undefined): (request: IncomingMessage) => ApiError | undefined {
  return (request) => {
    const { url = '' } = request;
    if (url.length > limits.url) return new ApiError('uri_too_long');
    const wrong = fault(request);
    if (wrong !== undefined) return new HttpError('bad_request', close, wrong);
    const target = targetFault(request, servesHost);
    if (target) return target;
    if (servesHost && !servesHost(hostOf(request))) return otherHost;
    const { expect } = request.headers;
    if (expect === undefined || request.httpVersion === '1.0' || /^100-continue$/i.test(expect)) return undefined;
    // Close: a late body could be parsed as the next request.
    return new HttpError('expectation_failed', close);
  };
}

/** Prepares a request for its response. Call it before anything that may respond. */
export function beginRequest(request: FastifyRequest, reply: FastifyReply): void {
  const { url = null, config } = request.routeOptions;
  const { record, headers } = request.raw;
  const { corsLines, draining } = reply.server;
  record.route = url;
  request.record = record;
  request.routeHeaders = config?.headers ?? '';
  request.ownHeaders = corsLines(headers.origin);
  // Node then sends Connection: close, unless the response has that line.
  if (draining()) reply.raw.shouldKeepAlive = false;
}

export function installRequestChecks(app: App): void {
  const check = createCheck(app.config.servesHost);
  app.decorateRequest('record');
  app.decorateRequest('routeHeaders', '');
  app.decorateRequest('ownHeaders', '');
  app.addHook('onRequest', (request, reply, done) => {
    beginRequest(request, reply);
    done(check(request.raw));
  });
}
