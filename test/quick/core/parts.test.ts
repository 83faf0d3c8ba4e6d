/** Unit tests of modules that need neither a socket nor a store. */
import { readFileSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';
import { Kind } from '@sinclair/typebox';
import { Value } from '@sinclair/typebox/value';
import type { FastifyRequest } from 'fastify';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { sunset, sunsetWarning } from '../../../src/core/deprecation.ts';
import { ApiError, type ErrorCode, errorMessages } from '../../../src/core/errors.ts';
import { isStorable, quoted, requirementOf } from '../../../src/core/schema.ts';
import { ErrorBody, HttpError, renderError, statuses, toApiError } from '../../../src/http/errors.ts';
import { createHosts, hostOf, isLoopback } from '../../../src/http/hosts.ts';
import { fault } from '../../../src/http/request-checks.ts';
import { createRequestLog, traceIdOf } from '../../../src/http/request-record.ts';
import { deprecationHeaders } from '../../../src/pets/deprecation.ts';
import { retryOf } from '../../../src/pets/idempotency.ts';
import { Cursor, pageLinks, readCursor } from '../../../src/pets/paging.ts';
import { translate } from '../../../src/store/sqlite/connection.ts';

const document = parse(readFileSync(new URL('../../../openapi.yaml', import.meta.url), 'utf8'));

test('the error body has the schema in openapi.yaml, which also lists the codes', () => {
  const { 'x-extensible-enum': codes, ...code } = document.components.schemas.Error.properties.code;
  const { properties, ...rest } = document.components.schemas.Error;
  expect(JSON.parse(JSON.stringify(ErrorBody))).toEqual({
    title: 'Error',
    ...rest,
    properties: { ...properties, code },
  });
  // Only the account pages send `forbidden`.
  expect(codes).toEqual(Object.keys(errorMessages).filter((each) => each !== 'forbidden'));
});

describe('the table of error codes', () => {
  const promised: Record<number, ErrorCode[]> = {
    400: ['bad_request', 'invalid_url', 'invalid_parameter', 'invalid_cursor', 'invalid_json', 'invalid_body'],
    401: ['missing_api_key', 'invalid_api_key', 'expired_api_key', 'revoked_api_key'],
    403: ['insufficient_scope', 'forbidden'],
    404: ['route_not_found', 'pet_not_found'],
    405: ['method_not_allowed'],
    408: ['request_timeout'],
    410: ['operation_removed'],
    412: ['precondition_failed'],
    413: ['payload_too_large'],
    414: ['uri_too_long'],
    415: ['unsupported_media_type'],
    417: ['expectation_failed'],
    422: ['idempotency_key_reused'],
    429: ['rate_limited'],
    431: ['headers_too_large'],
    500: ['internal_error'],
    501: ['not_implemented'],
    503: ['service_unavailable'],
  };

  test('holds exactly the documented codes, each with its status', () => {
    const held = Object.entries(statuses).map(([code, status]) => `${status} ${code}`);
    expect(held.sort()).toEqual(
      Object.entries(promised)
        .flatMap(([status, codes]) => codes.map((code) => `${status} ${code}`))
        .sort(),
    );
  });

  test('has a different message for each code', () => {
    const messages = Object.values(errorMessages);
    expect(new Set(messages).size).toBe(messages.length);
    for (const message of messages) expect(message).toMatch(/^[A-Za-z].{15,}\.$/);
  });
});

describe('an ApiError', () => {
  const sent = (error: ApiError) => {
    const { status, headers, body } = renderError(error);
    const names = headers.filter((_, at) => at % 2 === 0);
    return { status, json: JSON.parse(body), header: (name: string) => headers[2 * names.indexOf(name) + 1] };
  };

  test('is sent with its code, its status and the message in the table', () => {
    const { status, json, header } = sent(new ApiError('pet_not_found'));
    expect(status).toBe(404);
    expect(json).toEqual({ code: 'pet_not_found', message: 'There is no animal with this id.', status: 404 });
    expect(header('cache-control')).toBe('no-store');
  });

  test('is sent with its own message and headers, and without its cause', () => {
    const { status, json, header } = sent(new HttpError('rate_limited', { 'retry-after': '7' }, 'Wait.'));
    expect([status, header('retry-after')]).toEqual([429, '7']);
    expect(json).toEqual({ code: 'rate_limited', message: 'Wait.', status: 429 });
    const cause = new Error('secret');
    const error = new ApiError('service_unavailable', undefined, { cause });
    expect(error.cause).toBe(cause);
    expect(sent(error).header('retry-after')).toBe('1');
    expect(JSON.stringify(sent(error))).not.toContain('secret');
  });

  test.for<[code: string | undefined, expected: ErrorCode]>([
    ['FST_ERR_BAD_URL', 'invalid_url'],
    ['FST_ERR_CTP_BODY_TOO_LARGE', 'payload_too_large'],
    ['FST_ERR_CTP_INVALID_MEDIA_TYPE', 'unsupported_media_type'],
    ['FST_ERR_CTP_INVALID_CONTENT_LENGTH', 'bad_request'],
    ['FST_ERR_VALIDATION', 'internal_error'],
    [undefined, 'internal_error'],
  ])('replaces an error of Fastify: %s becomes %s', ([code, expected]) => {
    const error = Object.assign(new Error('x'), { code });
    const apiError = toApiError(error);
    expect(apiError.code).toBe(expected);
    expect(apiError.cause).toBe(error);
  });
});

describe('a stored text', () => {
  test('has no NUL and no lone surrogates', () => {
    for (const text of ['', 'a', '\u{1f436}', '\u0001', '\uffff']) expect(isStorable(text)).toBe(true);
    for (const value of ['a\0', '\0', '\ud800', 'a\udc00b', 1, null, undefined, ['a'], {}])
      expect(isStorable(value)).toBe(false);
  });

  test('is quoted in an error with at most 64 characters, well-formed', () => {
    expect(quoted('a"b')).toBe('"a\\"b"');
    expect(quoted('x'.repeat(64))).toBe(`"${'x'.repeat(64)}"`);
    expect(quoted('x'.repeat(65))).toBe(`"${'x'.repeat(64)}…"`);
    expect(quoted(`${'x'.repeat(63)}\u{1f436}y`)).toBe(`"${'x'.repeat(63)}\ufffd…"`);
  });
});

describe('the hosts that requests may name', () => {
  const local = [
    ...['localhost', 'LocalHost:1', 'localhost.', 'a.localhost:80', '127.0.0.1', '127.255.0.9:65535', 'localhost:'],
    ...['[::1]', '[::1]:80', '[0:0:0:0:0:0:0:1]', '[::ffff:127.0.0.1]'],
  ];
  const named = ['store', 'STORE:80', 'animals.example.com.'];
  const addresses = ['192.0.2.1', '0.0.0.0:80', '128.0.0.1', '[::]', '[2001:DB8:0::2]:1', '[::ffff:192.0.2.1]'];
  const foreign = [
    ...['', 'evil.example', 'localhost.evil.example', '127.0.0.1.evil.example', 'evillocalhost', 'localhost:99999'],
    ...['animals.example', 'a.store', 'me@localhost', 'localhost, evil.example', 'evil.example/localhost', '[::1'],
  ];
  const names = ['Store', 'animals.example.com'];

  test('are the names, localhost and addresses', () => {
    const expected = [...local, ...named, ...addresses];
    expect([...expected, ...foreign].filter(createHosts(names))).toEqual(expected);
    expect([...foreign, ...expected].filter(createHosts(names))).toEqual(expected);
  });

  test('come from a target in absolute form before Host', () => {
    const of = (url: string) => hostOf({ url, headers: { host: 'a' } } as IncomingMessage);
    for (const url of ['/', '//b/', '/http://b/', '*', 'b/', 'b:80']) expect([url, of(url)]).toEqual([url, 'a']);
    for (const url of ['http://b/', 'HTTPS://b', 'http://b?/', 'ftp://b/c']) expect([url, of(url)]).toEqual([url, 'b']);
    expect(of('http://a@b:80/')).toBe('a@b:80');
  });

  test('are limited on a loopback address', () => {
    const all = ['127.0.0.1', '127.1.2.3', '::1', '0:0:0:0:0:0:0:1', '::ffff:127.0.0.1'];
    expect([...all, '0.0.0.0', '::', '192.0.2.1', '2001:db8::1', '::2', 'store'].filter(isLoopback)).toEqual(all);
  });
});

describe('fault', () => {
  const of = (httpVersion: string, headers: IncomingMessage['headers']) =>
    fault({ httpVersion, headers } as IncomingMessage);
  const version = 'The version of HTTP must be 1.1 or 1.0.';
  const host = 'The request must have exactly one Host header, with a valid value.';
  const coding = 'The only supported transfer coding is chunked, and only in HTTP/1.1.';

  test('rejects a version of HTTP other than 1.1 and 1.0', () => {
    for (const other of ['2.0', '0.9', '1.2', '1.']) expect(of(other, { host: 'a' })).toBe(version);
    for (const known of ['1.0', '1.1']) expect(of(known, { host: 'a' })).toBeUndefined();
  });

  test('rejects a missing Host in HTTP/1.1', () => {
    expect(of('1.1', {})).toBe(host);
    expect(of('1.0', {})).toBeUndefined();
  });

  test.for([
    '',
    'a',
    'a.example',
    'a:',
    'a:80',
    '127.0.0.1:3000',
    '[::1]',
    '[fe80::1%25x]:1'.replace('%25', '~'),
    'a%20b',
    '%aF',
    "!$&'()*+,;=_~-",
  ])('accepts the Host %j', (value) => {
    for (const httpVersion of ['1.0', '1.1']) expect(of(httpVersion, { host: value })).toBeUndefined();
  });

  test.for([
    'a, b',
    'a b',
    ' a',
    'a ',
    'a/b',
    'a@b',
    'a?b',
    'a#b',
    'a:x',
    'a:1:2',
    '[::1',
    '::1]',
    '[]',
    '[::1]x',
    'x[::1]',
    '%2',
    '%zz',
    '%2z',
    'é',
  ])('rejects the Host %j', (value) => {
    for (const httpVersion of ['1.0', '1.1']) expect(of(httpVersion, { host: value })).toBe(host);
  });

  test('rejects a transfer coding other than chunked, and any in HTTP/1.0', () => {
    const sent = (httpVersion: string, value: string) => of(httpVersion, { host: 'a', 'transfer-encoding': value });
    for (const value of ['chunked', 'Chunked', 'CHUNKED']) {
      expect(sent('1.1', value)).toBeUndefined();
      expect(sent('1.0', value)).toBe(coding);
    }
    for (const value of ['', 'gzip', 'gzip, chunked', 'chunked, gzip', 'chunkedx', 'xchunked'])
      expect(sent('1.1', value)).toBe(coding);
  });
});

describe('paging', () => {
  test('describes a cursor as openapi.yaml does, and accepts only the position read from it', () => {
    const parameters: { name?: string; schema: object; description: string }[] = document.paths['/pets'].get.parameters;
    const { schema, description } = parameters.find(({ name }) => name === 'cursor') ?? {};
    expect({ ...schema, description }).toEqual(JSON.parse(JSON.stringify(Cursor)));
    expect(Cursor[Kind]).toBe('Cursor');
    expect(requirementOf(Cursor)).toBe('be copied unchanged from the Link header of a list response');
    expect([1n, 'YWZ0ZXI6MQ', 1, undefined].map((value) => Value.Check(Cursor, value))).toEqual([
      true,
      false,
      false,
      false,
    ]);
  });

  const cursor = (text: string) => Buffer.from(text).toString('base64url');

  test.for([1n, 9n, 10n, 2n ** 53n - 1n, 9999999999999999n])(
    'reads back the id that a cursor was written for: %d',
    (id) => {
      const [, written = ''] = /&cursor=([\w-]+)>; rel="next"/.exec(pageLinks('/v1', { limit: 1 }, id)) ?? [];
      expect(readCursor(written)).toBe(id);
    },
  );

  test.for([
    'after:0',
    'after:01',
    'after:-1',
    'after:',
    'after:x',
    'after:1x',
    'xafter:1',
    'after:10000000000000000',
    'before:1',
    '',
  ])('rejects a cursor that holds %j', (text) => {
    expect(readCursor(cursor(text))).toBeUndefined();
  });

  test('rejects a cursor in any other encoding', () => {
    const [own] = [cursor('after:1')];
    expect(readCursor(own)).toBe(1n);
    for (const other of [`${own}=`, ` ${own}`, `${own}\n`, own.replace(/.$/, 'R'), `*${own}`])
      expect(readCursor(other)).toBeUndefined();
  });

  test('keeps limit and status in the links, and links to a next page only if there is one', () => {
    expect(pageLinks('/v1', { limit: 20 }, undefined)).toBe('</v1/pets?limit=20>; rel="first"');
    expect(pageLinks('https://a.example/v1', { limit: 2, status: 'sold' }, 7n)).toBe(
      `<https://a.example/v1/pets?limit=2&status=sold&cursor=${cursor('after:7')}>; rel="next", <https://a.example/v1/pets?limit=2&status=sold>; rel="first"`,
    );
  });
});

describe('the removal of getPet', () => {
  test('is announced to the second', () => {
    expect(sunset.toISOString()).toBe('2030-12-05T00:00:00.000Z');
    expect(deprecationHeaders('https://a.example/store/v1', 'getPet')).toEqual({
      deprecation: '@1795132800',
      sunset: 'Thu, 05 Dec 2030 00:00:00 GMT',
      link: '<https://a.example/store/v1/pets>; rel="successor-version", <https://a.example/store/docs#animal-store/tag/pets/getPet>; rel="deprecation"; type="text/html"',
    });
  });

  test.for<[now: string, warning: string | undefined]>([
    ['2026-11-20T00:00:00Z', undefined],
    ['2030-09-05T23:59:59.999Z', undefined],
    [
      '2030-09-06T00:00:00Z',
      'GET /pets/{petId} will be removed in 90 days, on 2030-12-05; it returns 410 from then on.',
    ],
    [
      '2030-12-04T23:59:59.999Z',
      'GET /pets/{petId} will be removed in 1 days, on 2030-12-05; it returns 410 from then on.',
    ],
    ['2030-12-05T00:00:00Z', 'GET /pets/{petId} was removed on 2030-12-05.'],
    ['2031-01-01T00:00:00Z', 'GET /pets/{petId} was removed on 2030-12-05.'],
  ])('has a warning for operators from 90 days before: at %s, %s', ([now, warning]) => {
    expect(sunsetWarning(new Date(now))).toBe(warning);
  });
});

describe('the request log', () => {
  const traceId = '0af7651916cd43dd8448eb211c80319c';

  test('reads the trace id of a traceparent of version 00 and of later versions', () => {
    for (const header of [`00-${traceId}-b7ad6b7169203331-01`, `cc-${traceId}-b7ad6b7169203331-01-later`])
      expect(traceIdOf(header)).toBe(traceId);
  });

  test.for([
    undefined,
    '',
    `0-${traceId}-b7ad6b7169203331-01`,
    `x00-${traceId}-b7ad6b7169203331-01`,
    `00-${traceId.slice(1)}-b7ad6b7169203331-01`,
    `00-${traceId}-b7ad6b716920333-01`,
    `00-${traceId}-b7ad6b7169203331-0`,
    `00-${traceId.toUpperCase()}-b7ad6b7169203331-01`,
    `00-${traceId}-b7ad6b7169203331`,
  ])('ignores an invalid traceparent: %s', (header) => {
    expect(traceIdOf(header)).toBeUndefined();
  });

  test('writes what pino would write, with times to 0.01 ms and without unknown members', () => {
    const lines: string[] = [];
    const logRequest = createRequestLog((line) => lines.push(line), '"pid":7,"hostname":"h"');
    logRequest({ reqId: 'a', status: 200, method: 'GET', route: '/x', ms: 1.23456, address: '::1', key: 1, traceId });
    logRequest({ reqId: 'b', status: 400, code: 'bad_request' });
    logRequest({ reqId: 'c', status: 499, method: 'GET', route: null, ms: 1000.999, aborted: true });
    logRequest({ reqId: 'd', status: 200, ms: 0.058 });
    for (const line of lines) expect(line.endsWith('}\n')).toBe(true);
    const common = { level: 30, time: expect.any(Number), pid: 7, hostname: 'h', msg: 'request' };
    expect(lines.map((line) => JSON.parse(line))).toEqual([
      { ...common, reqId: 'a', status: 200, method: 'GET', route: '/x', ms: 1.23, address: '::1', key: 1, traceId },
      { ...common, reqId: 'b', status: 400, code: 'bad_request' },
      { ...common, reqId: 'c', status: 499, method: 'GET', route: null, ms: 1001, aborted: true },
      { ...common, reqId: 'd', status: 200, ms: 0.06 },
    ]);
  });
});

test('a retry belongs to the account of its API key', () => {
  const request = (headers: object) => ({ headers, apiKey: { id: 1, accountId: 7 } }) as unknown as FastifyRequest;
  expect(retryOf(request({}))).toBeUndefined();
  expect(retryOf(request({ 'idempotency-key': 'a' }))).toEqual({ accountId: 7, key: 'a' });
});

describe('an SQLite error', () => {
  test.for([
    'BUSY',
    'BUSY_SNAPSHOT',
    'LOCKED',
    'NOMEM',
    'READONLY',
    'IOERR',
    'IOERR_FSYNC',
    'CORRUPT',
    'FULL',
    'CANTOPEN',
    'PROTOCOL',
    'NOTADB',
  ])('%s is temporary and becomes service_unavailable', (name) => {
    const error = Object.assign(new Error('x'), { code: `SQLITE_${name}` });
    expect(translate(error)).toMatchObject({
      code: 'service_unavailable',
      cause: error,
    });
  });

  test.for(['SQLITE_CONSTRAINT', 'SQLITE_BUSYX', 'XSQLITE_BUSY', 'SQLITE_FULLNESS', 'SQLITE_ERROR', undefined])(
    '%s is a bug and stays unchanged',
    (code) => {
      const error = Object.assign(new Error('x'), { code });
      expect(translate(error)).toBe(error);
    },
  );
});
