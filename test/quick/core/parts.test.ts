/** Unit tests of modules that need neither a socket nor a store. */
import { readFileSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';
import { Kind } from '@sinclair/typebox';
import { Value } from '@sinclair/typebox/value';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { ApiError, type ErrorCode, errorMessages } from '../../../src/core/errors.ts';
import { isStorable, quoted, requirementOf } from '../../../src/core/schema.ts';
import { ErrorBody, HttpError, renderError, statuses } from '../../../src/http/errors.ts';
import { createHosts, hostOf, isLoopback } from '../../../src/http/hosts.ts';
import { createRequestLog } from '../../../src/http/request-record.ts';
import { Cursor } from '../../../src/pets/paging.ts';

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
});

describe('the request log', () => {
  const traceId = '0af7651916cd43dd8448eb211c80319c';
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
