/** Tests of HTTP over raw sockets: malformed requests, size limits, pipelining and clients that disconnect. */
import net from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import type { PetPage } from '../../../src/core/pets.ts';
import type { Store } from '../../../src/store/store.ts';
import { startApp, type TestApp } from '../../support/app.ts';
import { converse, summaryOf } from '../../support/raw.ts';

/** The packets to send → summaries of the responses. `KEY` stands for the test's API key. */
type Case = [sent: string | Buffer | (string | Buffer)[], expected: string, options?: Parameters<typeof converse>[2]];
type Table = Record<string, Case>;

const host = 'Host: animals.example\r\n';
const key = 'Authorization: Bearer KEY\r\n';
const json = 'Content-Type: application/json\r\n';
const pet = '{"name":"Biscuit","categoryId":7}';
const chunkedPet = `${pet.length.toString(16)}\r\n${pet}\r\n0\r\n\r\n`;

const get = (target: string, headers = host + key, version = 'HTTP/1.1') =>
  `GET ${target} ${version}\r\n${headers}\r\n`;
const list = (more = '') => get('/v1/pets', host + key + more);
const on = (method: string, target = '/v1/pets') => `${method} ${target} HTTP/1.1\r\n${host}${key}\r\n`;
const post = (headers: string, body = pet) => `POST /v1/pets HTTP/1.1\r\n${host}${key}${headers}\r\n${body}`;
const lengthOf = (body: string) => `Content-Length: ${Buffer.byteLength(body, 'latin1')}\r\n`;
const add = (body = pet) => post(json + lengthOf(body), body);
const typed = (type: string) => post(`${type}${lengthOf(pet)}`);
const chunked = (body: string) => post(`${json}Transfer-Encoding: chunked\r\n`, body);
const withoutKey = (request: string) => request.replace(key, '');

async function allIds(store: Store): Promise<bigint[]> {
  const ids: bigint[] = [];
  for (let after: bigint | undefined = 0n; after !== undefined; ) {
    const page: PetPage = await store.pets.list({ limit: 100, after });
    ids.push(...page.pets.map((pet) => BigInt(JSON.parse(pet).id)));
    after = page.next;
  }
  return ids;
}

/** Runs every case against one server. Checks the responses, that the store holds exactly what was acknowledged, and the log. */
async function checkCases(table: Table): Promise<void> {
  const server = await startApp();
  const acknowledged: bigint[] = [];
  const answered = await Promise.all(
    Object.entries(table).map(async ([name, [sent, expected, options]]) => {
      const parts = [sent].flat().map((part) => (typeof part === 'string' ? part.replaceAll('KEY', server.key) : part));
      const finals = expected.split(', ').filter((summary) => !summary.startsWith('1')).length;
      const answers = await converse(server.port, parts, { answers: finals, ...options });
      for (const { status, text } of answers) if (status === 201) acknowledged.push(BigInt(JSON.parse(text).id));
      return [name, answers.map(summaryOf).join(', ')];
    }),
  );
  expect(Object.fromEntries(answered)).toEqual(
    Object.fromEntries(Object.entries(table).map(([name, [, expected]]) => [name, expected])),
  );
  expect(acknowledged.sort((a, b) => Number(a - b))).toEqual(await allIds(server.store));
  expectQuietLog(server);
}

/** Client errors must not alert the operator: the log has no warnings and no errors. */
function expectQuietLog({ log }: TestApp): void {
  expect(
    log()
      .split('\n')
      .filter((line) => /"level":[456]0/.test(line)),
  ).toEqual([]);
}

/** Gives every case of the table the same expectation. */
function all(expected: string, table: Record<string, Case[0]>): Table {
  return Object.fromEntries(Object.entries(table).map(([name, sent]) => [name, [sent, expected]]));
}

describe('400 bad_request', () => {
  test('is returned for what is not an HTTP/1 request', () =>
    checkCases(
      all('400 bad_request', {
        'a garbage line': 'hello\r\n\r\n',
        'garbage in several packets': ['gar', 'bage\r\n', '\r\nmore', 'and more'],
        'NUL bytes': '\0\0\0\0\r\n\r\n',
        'TLS hello on the plain port': Buffer.from('16030100c8010000c40303a1b2c3d4', 'hex'),
        'HTTP/2 preface': 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n',
        'SSH banner': 'SSH-2.0-OpenSSH_9.6\r\n',
        'SOCKS hello': Buffer.from('050100', 'hex'),
        'PROXY protocol': `PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n${list()}`,
        'lower-case method': list().replace('GET', 'get'),
        'unknown method': list().replace('GET', 'FROB'),
        'method of RTSP': list().replace('GET', 'DESCRIBE'),
        'empty method': list().replace('GET', ''),
        'space before the method': ` ${list()}`,
        'tabs in the request line': list().replace('GET /v1/pets HTTP', 'GET\t/v1/pets\tHTTP'),
        'space after the version': list().replace('HTTP/1.1', 'HTTP/1.1 '),
        'no target': list().replace('/v1/pets ', ''),
        'HTTP/0.9': get('/v1/pets', host + key, 'HTTP/0.9'),
        'no version': `GET /v1/pets\r\n${host}${key}\r\n`,
        'HTTP/1.2': get('/v1/pets', host + key, 'HTTP/1.2'),
        'HTTP/2.0 on HTTP/1 framing': get('/v1/pets', host + key, 'HTTP/2.0'),
        'HTTP/3.0': get('/v1/pets', host + key, 'HTTP/3.0'),
        'another protocol': get('/v1/pets', host + key, 'HTTQ/1.1'),
        'a version without a dot': get('/v1/pets', host + key, 'HTTP/11'),
      }),
    ));

  test('is returned for a missing, duplicate or invalid Host', () =>
    checkCases({
      ...all('400 bad_request', {
        'no Host': get('/v1/pets', key),
        'no Host, absolute form': get('http://animals.example/v1/pets', key),
        'two Host headers': get('/v1/pets', host + host + key),
        'two different Host headers': get('/v1/pets', `${host}Host: other.example\r\n${key}`),
        'two empty Host headers': get('/v1/pets', `Host:\r\nHost:\r\n${key}`),
        'two Host headers in HTTP/1.0': get('/v1/pets', host + host + key, 'HTTP/1.0'),
        'Host with a space': get('/v1/pets', `Host: a b\r\n${key}`),
        'Host with a path': get('/v1/pets', `Host: a/b\r\n${key}`),
        'Host with user information': get('/v1/pets', `Host: me@a\r\n${key}`),
        'Host with a port of letters': get('/v1/pets', `Host: a:http\r\n${key}`),
        'Host with two ports': get('/v1/pets', `Host: a:1:2\r\n${key}`),
        'Host with bytes beyond ASCII': get('/v1/pets', `Host: \xe9\r\n${key}`),
        'Host with an open bracket': get('/v1/pets', `Host: [::1\r\n${key}`),
        'no Host on POST': post(json + lengthOf(pet)).replace(host, ''),
      }),
      ...all('200', {
        'no Host in HTTP/1.0': get('/v1/pets', key, 'HTTP/1.0'),
        'empty Host': get('/v1/pets', `Host:\r\n${key}`),
        'Host with a port': get('/v1/pets', `Host: animals.example:8080\r\n${key}`),
        'Host is an IPv6 address': get('/v1/pets', `Host: [::1]:8080\r\n${key}`),
      }),
    }));

  test('is returned for invalid header fields', () =>
    checkCases({
      ...all('400 bad_request', {
        'bad header name': list('b@d: x\r\n'),
        'empty header name': list(': x\r\n'),
        'header without a colon': list('x\r\n'),
        'space before the colon': list('X : a\r\n'),
        'space before the first header': `GET /v1/pets HTTP/1.1\r\n X: a\r\n${host}${key}\r\n`,
        'obsolete line folding': list('X: a\r\n b\r\n'),
        'NUL in a header': list('X: a\0b\r\n'),
        'control character in a header': list('X: a\x01b\r\n'),
        'DEL in a header': list('X: a\x7fb\r\n'),
        'bare LF after every line': list().replaceAll('\r\n', '\n'),
        'bare LF after one header': list('X: a\n'),
        'bare LF at the end of the headers': list().replace(/\r\n$/, '\n'),
        'bare CR within a header': list('X: a\rY: b\r\n'),
      }),
      ...all('200', {
        'empty lines before the request': `\r\n\r\n${list()}`,
        'tab after the colon': list('X:\ta\r\n'),
      }),
    }));

  test('is returned for an ambiguous length, which would allow request smuggling', () =>
    checkCases({
      ...all('400 bad_request', {
        'Content-Length and Transfer-Encoding': post(
          `${json}${lengthOf(pet)}Transfer-Encoding: chunked\r\n`,
          chunkedPet,
        ),
        'Transfer-Encoding and Content-Length': post(
          `${json}Transfer-Encoding: chunked\r\n${lengthOf(pet)}`,
          chunkedPet,
        ),
        'two different Content-Lengths': post(`${json}${lengthOf(pet)}Content-Length: 5\r\n`),
        'two equal Content-Lengths': post(`${json}${lengthOf(pet)}${lengthOf(pet)}`),
        'a list of Content-Lengths': post(`${json}Content-Length: 33, 33\r\n`),
        'negative Content-Length': post(`${json}Content-Length: -1\r\n`),
        'Content-Length of letters': post(`${json}Content-Length: all\r\n`),
        'Content-Length with a sign': post(`${json}Content-Length: +33\r\n`),
        'hexadecimal Content-Length': post(`${json}Content-Length: 0x21\r\n`),
        'fractional Content-Length': post(`${json}Content-Length: 33.0\r\n`),
        'Content-Length with a space': post(`${json}Content-Length: 3 3\r\n`),
        'empty Content-Length': post(`${json}Content-Length:\r\n`),
        'Content-Length beyond 64 bits': post(`${json}Content-Length: 99999999999999999999999\r\n`),
        'Transfer-Encoding: gzip': post(`${json}Transfer-Encoding: gzip\r\n`),
        'Transfer-Encoding: identity': post(`${json}Transfer-Encoding: identity\r\n`),
        'Transfer-Encoding: xchunked': post(`${json}Transfer-Encoding: xchunked\r\n`, chunkedPet),
        'Transfer-Encoding: chunked, gzip': post(`${json}Transfer-Encoding: chunked, gzip\r\n`, chunkedPet),
        'Transfer-Encoding: gzip, chunked': post(`${json}Transfer-Encoding: gzip, chunked\r\n`, chunkedPet),
        'Transfer-Encoding: chunked, chunked': post(`${json}Transfer-Encoding: chunked, chunked\r\n`, chunkedPet),
        'Transfer-Encoding with a vertical tab': post(`${json}Transfer-Encoding: \x0bchunked\r\n`, chunkedPet),
        'empty Transfer-Encoding': post(`${json}Transfer-Encoding:\r\n`, chunkedPet),
        'two Transfer-Encodings': post(`${json}${'Transfer-Encoding: chunked\r\n'.repeat(2)}`, chunkedPet),
        'chunked and then identity': post(
          `${json}Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n`,
          chunkedPet,
        ),
        'chunked in HTTP/1.0': chunked(chunkedPet).replace('HTTP/1.1', 'HTTP/1.0'),
      }),
      ...all('201', { 'Transfer-Encoding: CHUNKED': chunked(chunkedPet).replace(': chunked', ': CHUNKED') }),
    }));

  test('is returned for invalid chunks', () =>
    checkCases({
      ...all('400 bad_request', {
        'chunk size of letters': chunked(`zz\r\n${pet}\r\n0\r\n\r\n`),
        'negative chunk size': chunked(`-1\r\n${pet}\r\n0\r\n\r\n`),
        'chunk size with 0x': chunked(`0x21\r\n${pet}\r\n0\r\n\r\n`),
        'chunk size beyond 64 bits': chunked(`fffffffffffffffff\r\n${pet}`),
        'chunk size ended by a bare LF': chunked(chunkedPet.replaceAll('\r\n', '\n')),
        'chunk longer than its size': chunked(`20\r\n${pet}\r\n0\r\n\r\n`),
        'endless chunk extension': chunked(`21;${'a'.repeat(20_000)}\r\n${pet}\r\n0\r\n\r\n`),
        'bare LF in a chunk extension': chunked(`21;a\n${pet}\r\n0\r\n\r\n`),
        'trailer without a colon': chunked(`21\r\n${pet}\r\n0\r\nx\r\n\r\n`),
      }),
      'oversized trailer': [chunked(`21\r\n${pet}\r\n0\r\nX: ${'x'.repeat(20_000)}\r\n\r\n`), '431 headers_too_large'],
      ...all('201', {
        'chunk extension': chunked(`21;a=b\r\n${pet}\r\n0\r\n\r\n`),
        trailer: chunked(`21\r\n${pet}\r\n0\r\nX: a\r\n\r\n`),
        'a chunk for every byte': chunked(`${[...pet].map((byte) => `1\r\n${byte}\r\n`).join('')}0\r\n\r\n`),
      }),
    }));
});

describe('size limits', () => {
  test('more than 16 KiB before the body gets 431 headers_too_large', () =>
    checkCases(
      all('431 headers_too_large', {
        'one long header': list(`X: ${'x'.repeat(20_000)}\r\n`),
        'a header of a megabyte': list(`X: ${'x'.repeat(1_000_000)}\r\n`),
        'many headers': list('X: a\r\n'.repeat(3000)),
        'many empty headers': list('X:\r\n'.repeat(6000)),
        // Node's parser counts the URL as part of the headers and does not report which was too long.
        'a URL of 20,000 characters': get(`/v1/pets?cursor=${'a'.repeat(20_000)}`),
        'a header that does not end': [`GET / HTTP/1.1\r\nX: ${'x'.repeat(20_000)}`],
      }),
    ));

  test('a URL of more than 8,192 characters gets 414 uri_too_long', () =>
    checkCases({
      query: [get(`/v1/pets?cursor=${'a'.repeat(8192)}`), '414 uri_too_long'],
      path: [get(`/v1/pets/${'1'.repeat(8192)}`), '414 uri_too_long'],
      'absolute form': [get(`http://animals.example/${'a'.repeat(8192)}`), '414 uri_too_long'],
      'no key': [withoutKey(get(`/v1/pets?cursor=${'a'.repeat(8192)}`)), '414 uri_too_long'],
      'just within': [get(`/v1/pets?cursor=${'a'.repeat(8192 - '/v1/pets?cursor='.length)}`), '400 invalid_cursor'],
    }));

  test('a body of more than 64 KiB gets 413 payload_too_large', () =>
    checkCases({
      '65,537 bytes': [add(pet.padEnd(65_537)), '413 payload_too_large'],
      'a megabyte, sent anyway': [add(pet.padEnd(1_000_000)), '413 payload_too_large'],
      'a gigabyte, only announced': [post(`${json}Content-Length: 1000000000\r\n`, ''), '413 payload_too_large'],
      'in chunks': [chunked(`11170\r\n${pet.padEnd(70_000)}\r\n0\r\n\r\n`), '413 payload_too_large'],
      'a next request on the same socket': [add(pet.padEnd(65_537)) + add(), '413 payload_too_large, 201'],
      'just within': [add(pet.padEnd(65_536)), '201'],
    }));
});

describe('targets and methods', () => {
  test('every form of the request target has its response', () =>
    checkCases({
      ...all('400 invalid_url', {
        'bad percent-encoding': get('/v1/pets/%zz'),
        'cut percent-encoding': get('/v1/pets/%4'),
        'percent-encoding of no UTF-8': get('/v1/pets/%ff'),
        'absolute form with a bad port': get('http://animals.example:x/v1/pets'),
        'absolute form without a host': get('http:///'),
        'a fragment': get('/v1/pets#limit=1'),
        'a fragment after a query': get('/v1/pets?limit=1#x'),
        'an empty fragment of the root': get('/#'),
      }),
      ...all('400 bad_request', {
        'raw bytes beyond ASCII': get('/v1/pets/\xe9'),
        'no slash at the start': get('v1/pets'),
        backslashes: get('\\v1\\pets'),
        'another scheme': get('ftp://animals.example/v1/pets'),
        'the scheme https over plain HTTP': get('https://animals.example/v1/pets'),
        'absolute form of another host': get('http://other.example/v1/pets'),
        'absolute form of another port': get('http://animals.example:81/v1/pets'),
      }),
      ...all('400 invalid_parameter', {
        'bad percent-encoding in the query': get('/v1/pets?status=%zz'),
        'encoded NUL': get('/v1/pets/%00'),
      }),
      ...all('404 route_not_found', {
        'GET *': get('*'),
        'empty id': get('/v1/pets/'),
        'encoded slash': get('/v1%2fpets'),
        'dot segments': get('/v1/../v1/pets'),
        'two slashes': get('//v1/pets'),
        'absolute form without a path': get('http://animals.example'),
      }),
      ...all('200', {
        'absolute form': get('http://animals.example/v1/pets?limit=1'),
        'absolute form with the default port': get('http://animals.example:80/v1/pets'),
        'absolute form in capitals': get('HTTP://ANIMALS.example/v1/pets'),
        'encoded letters': get('/v1/%70ets'),
      }),
      'OPTIONS *': [on('OPTIONS', '*'), '204'],
      'absolute form without a key': [
        withoutKey(get('http://animals.example/v1/pets', host + key)),
        '401 missing_api_key',
      ],
    }));

  test('other methods get 405 method_not_allowed with Allow', () =>
    checkCases({
      ...all(
        '405 method_not_allowed [GET HEAD POST OPTIONS]',
        Object.fromEntries(
          [
            ...['PUT', 'DELETE', 'PATCH', 'TRACE', 'PROPFIND', 'PROPPATCH', 'MKCOL', 'COPY', 'MOVE', 'LOCK', 'UNLOCK'],
            ...['SEARCH', 'REPORT', 'PURGE', 'LINK', 'UNLINK', 'QUERY', 'M-SEARCH', 'SUBSCRIBE', 'SOURCE'],
          ].map((method) => [method, on(method)]),
        ),
      ),
      'DELETE of a pet': [on('DELETE', '/v1/pets/1'), '405 method_not_allowed [GET HEAD OPTIONS]'],
      'PUT with a body': [add().replace('POST', 'PUT'), '405 method_not_allowed [GET HEAD POST OPTIONS]'],
      'POST on the reference': [on('POST', '/openapi.json'), '405 method_not_allowed [GET HEAD OPTIONS]'],
      ...all('405 method_not_allowed []', {
        CONNECT: on('CONNECT', 'animals.example:443'),
        'CONNECT without a key': withoutKey(on('CONNECT', 'animals.example:443')),
        'CONNECT and then a request': on('CONNECT', 'animals.example:443') + add(),
        'CONNECT and then a tunnel': [on('CONNECT', 'animals.example:443'), Buffer.from('1603010001', 'hex'), 'x'],
      }),
    }));

  test('a body or an upgrade that the operation does not use is ignored', () =>
    checkCases(
      all('200', {
        'GET with a body': list(`${lengthOf(pet)}${json}`) + pet,
        'GET with a body of another type': list(`Content-Type: text/plain\r\nContent-Length: 3\r\n`).concat('abc'),
        'GET with a content type and no body': list('Content-Type: text/plain\r\n'),
        'upgrade to a WebSocket': list('Connection: Upgrade\r\nUpgrade: websocket\r\n'),
        'upgrade to HTTP/2': list('Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAM\r\n'),
      }),
    ));
});

describe('Expect', () => {
  const expecting = (expectation: string, more = lengthOf(pet)) => post(`${json}Expect: ${expectation}\r\n${more}`, '');

  test('gets 417 expectation_failed unless it is 100-continue', () =>
    checkCases(
      all('417 expectation_failed', {
        unknown: expecting('a-pony'),
        empty: expecting(''),
        'longer than 100-continue': expecting('100-continued'),
        'with a letter before 100-continue': expecting('x100-continue'),
        'without a key': withoutKey(expecting('a-pony')),
      }),
    ));

  test('gets 100 only if the server wants the body', () =>
    checkCases({
      'good key': [[expecting('100-continue'), pet], '100, 201', { gapMs: 50 }],
      'in any case': [[expecting('100-Continue'), pet], '100, 201', { gapMs: 50 }],
      'body sent without waiting': [expecting('100-continue') + pet, '100, 201'],
      'in HTTP/1.0, which ignores it': [expecting('100-continue').replace('/1.1', '/1.0') + pet, '201'],
      'no key': [withoutKey(expecting('100-continue')), '401 missing_api_key'],
      'bad key': [expecting('100-continue').replace('KEY', 'KEYS'), '401 invalid_api_key'],
      'too large': [expecting('100-continue', lengthOf(pet.padEnd(65_537))), '413 payload_too_large'],
      'not JSON': [expecting('100-continue').replace('application/json', 'text/plain'), '415 unsupported_media_type'],
      'wrong method': [
        expecting('100-continue').replace('POST', 'PUT'),
        '405 method_not_allowed [GET HEAD POST OPTIONS]',
      ],
      'unknown path': [expecting('100-continue').replace('/v1/pets', '/v1/cats'), '404 route_not_found'],
      'GET, which has no body': [list('Expect: 100-continue\r\n'), '200'],
      'unknown in HTTP/1.0, which ignores it': [expecting('a-pony').replace('/1.1', '/1.0') + pet, '201'],
    }));
});

describe('media types', () => {
  const type = (value: string) => typed(`Content-Type: ${value}\r\n`);

  test('other than JSON get 415 unsupported_media_type', () =>
    checkCases(
      all('415 unsupported_media_type', {
        ...Object.fromEntries(
          [
            ...[
              'text/plain',
              'text/json',
              'application/x-www-form-urlencoded',
              'multipart/form-data; boundary=a',
              '*/*',
            ],
            ...['application', 'application/jsonp', 'application/vnd.api+json', 'application/json+x', 'json', ''],
            ...['application/json charset=utf-8', 'application/json, text/plain', 'application/json; a=b, text/plain'],
            ...[
              'application/json; charset=latin1',
              'application/json; charset=utf-16',
              'application/json; charset=utf8',
            ],
            ...['application/json; charset', 'application/json; charset=', 'application/json; charset="utf-8'],
            ...["application/json; charset='utf-8'", 'application/json; charset=utf-8; charset=latin1'],
            ...['application/json; a', 'application/json; a="b', 'application/json; charset="utf-16"'],
          ].map((value) => [value, type(value)]),
        ),
        none: typed(''),
        doubled: typed(json + json),
        'doubled with a charset': typed('Content-Type: application/json; charset=utf-8\r\n'.repeat(2)),
        'two types': typed(`${json}Content-Type: text/plain\r\n`),
        'content coding gzip': typed(`${json}Content-Encoding: gzip\r\n`),
        'content codings identity, gzip': typed(`${json}Content-Encoding: identity, gzip\r\n`),
        'unknown content coding': typed(`${json}Content-Encoding: x\r\n`),
      }),
    ));

  test('application/json in UTF-8 is accepted, however it is written', () =>
    checkCases(
      all('201', {
        ...Object.fromEntries(
          [
            ...[
              'application/json',
              'APPLICATION/JSON',
              'Application/Json;Charset=Utf-8',
              'application/json; charset="UTF-8"',
            ],
            ...['application/json ; charset=utf-8', 'application/json\t;\tcharset=utf-8', 'application/json;'],
            ...['application/json;;charset=utf-8', 'application/json; a=b', 'application/json; a="charset=latin1"'],
            ...[
              'application/json; a="x\\"y; charset=latin1"; charset=utf-8',
              'application/json; profile="https://a/b,c"',
            ],
          ].map((value) => [value, type(value)]),
        ),
        'content coding identity': typed(`${json}Content-Encoding: Identity\r\n`),
      }),
    ));

  test('a content type that is expensive to parse is rejected at once', async () => {
    const started = performance.now();
    await checkCases({
      semicolons: [type(`application/json${';'.repeat(15_000)}x`), '415 unsupported_media_type'],
      'semicolons and spaces': [type(`application/json${' ;  '.repeat(3500)}x`), '415 unsupported_media_type'],
      'open quotes': [type(`application/json;a="${'\\"'.repeat(7000)}`), '415 unsupported_media_type'],
      parameters: [type(`application/json${';a=b'.repeat(3500)},`), '415 unsupported_media_type'],
    });
    expect(performance.now() - started).toBeLessThan(20_000);
  });
});

describe('bodies', () => {
  const utf8 = (text: string) => Buffer.from(text).toString('latin1');

  test('that are not JSON in UTF-8 get 400 invalid_json', () =>
    checkCases(
      all(
        '400 invalid_json',
        Object.fromEntries(
          Object.entries({
            'no UTF-8': '{"name":"\xe9","categoryId":7}',
            'overlong UTF-8': '{"name":"\xc0\xaf","categoryId":7}',
            'surrogate in UTF-8': '{"name":"\xed\xa0\x80","categoryId":7}',
            'cut UTF-8': '{"name":"x","categoryId":7}\xe2\x82',
            'byte order mark': utf8(`\ufeff${pet}`),
            'UTF-16': `\xfe\xff${[...pet].map((letter) => `\0${letter}`).join('')}`,
            'white space': ' \n',
            'open object': '{',
            'cut object': pet.slice(0, -1),
            'two objects': pet + pet,
            'trailing comma': '{"name":"x","categoryId":7,}',
            'trailing comment': `${pet}//`,
            'single quotes': "{'name':'x','categoryId':7}",
            'bare names': '{name:"x",categoryId:7}',
            NaN: '{"name":"x","categoryId":NaN}',
            'leading zero': '{"name":"x","categoryId":07}',
            'plus sign': '{"name":"x","categoryId":+7}',
            'line break in a string': '{"name":"a\nb","categoryId":7}',
            'raw NUL': '{"name":"a\0b","categoryId":7}',
            'unknown escape': '{"name":"\\x41","categoryId":7}',
            'doubled member': '{"name":"x","name":"y","categoryId":7}',
            'doubled member, escaped': '{"name":"x","n\\u0061me":"y","categoryId":7}',
            'doubled member within': '{"name":{"a":1,"a":2},"categoryId":7}',
            'doubled __proto__': '{"__proto__":1,"__proto__":2,"name":"x","categoryId":7}',
            '30,000 open brackets': '['.repeat(30_000),
            '30,000 arrays deep': '['.repeat(30_000) + ']'.repeat(30_000),
            '10,000 objects deep': `${'{"a":'.repeat(10_000)}1${'}'.repeat(10_000)}`,
            'a form': 'name=Biscuit&categoryId=7',
          }).map(([name, body]) => [name, add(body)]),
        ),
      ),
    ));

  test('that are JSON but not a pet get 400 invalid_body', () =>
    checkCases(
      all(
        '400 invalid_body',
        Object.fromEntries(
          Object.entries({
            'no body': '',
            null: 'null',
            number: '7',
            string: '"Biscuit"',
            array: `[${pet}]`,
            'empty object': '{}',
            'escaped lone surrogate': '{"name":"\\ud800","categoryId":7}',
            'escaped surrogates in the wrong order': '{"name":"\\udc00\\ud800","categoryId":7}',
            'escaped NUL': '{"name":"a\\u0000","categoryId":7}',
            'empty name': '{"name":"","categoryId":7}',
            '__proto__ as a field': '{"name":"x","categoryId":7,"__proto__":{"status":"sold"}}',
            'everything in __proto__': `{"__proto__":${pet}}`,
            'constructor as a field': '{"name":"x","categoryId":7,"constructor":{"prototype":{}}}',
            'toString as a field': '{"name":"x","categoryId":7,"toString":1}',
            'unknown status': '{"name":"x","categoryId":7,"status":"lost"}',
            'status null': '{"name":"x","categoryId":7,"status":null}',
            'number in quotes': '{"name":"x","categoryId":"7"}',
            'beyond 64 bits': '{"name":"x","categoryId":9223372036854775808}',
            'far beyond 64 bits': '{"name":"x","categoryId":1e999999999}',
            fraction: '{"name":"x","categoryId":7.5}',
          }).map(([name, body]) => [name, add(body)]),
        ),
      ),
    ));
});

describe('several requests on one socket', () => {
  /** Waits for one response more than expected, so the server has to close the connection. */
  const closed = { answers: 2 };

  test('a malformed request is answered after those before it', () =>
    checkCases({
      'POST, garbage': [`${add()}garbage\r\n\r\n`, '201, 400 bad_request'],
      'POST, POST, garbage': [`${add() + add()}garbage\r\n\r\n`, '201, 201, 400 bad_request'],
      'GET, garbage, more of it later': [[`${list()}garbage\r\n`, 'more', 'and more'], '200, 400 bad_request'],
      'POST, bad chunk': [add() + chunked('zz\r\n'), '201, 400 bad_request'],
      'POST, two lengths': [add() + post(`${json}${lengthOf(pet)}${lengthOf(pet)}`), '201, 400 bad_request'],
      'POST, oversized headers': [add() + list(`X: ${'x'.repeat(20_000)}\r\n`), '201, 431 headers_too_large'],
      'POST, unknown expectation': [add() + list('Expect: a-pony\r\n'), '201, 417 expectation_failed'],
      'POST, CONNECT': [add() + on('CONNECT', 'a:443'), '201, 405 method_not_allowed []'],
      'POST, bad URL, POST': [add() + get('/%zz') + add(), '201, 400 invalid_url, 201'],
      'garbage, POST': [`garbage\r\n\r\n${add()}`, '400 bad_request', closed],
      'an invalid Host, POST': [list().replace(host, 'Host: a b\r\n') + add(), '400 bad_request', closed],
      'HTTP/1.2, POST': [list().replace('/1.1', '/1.2') + add(), '400 bad_request', closed],
      'unknown expectation, POST': [list('Expect: a-pony\r\n') + add(), '417 expectation_failed', closed],
      'no key, POST': [withoutKey(add()) + add(), '401 missing_api_key, 201'],
      '20 times POST': [add().repeat(20), Array(20).fill('201').join(', ')],
    }));

  test('nothing is read after Connection: close', () =>
    checkCases({
      'POST, POST': [post(`${json}${lengthOf(pet)}Connection: close\r\n`) + add(), '201', closed],
      'POST, garbage': [`${post(`${json}${lengthOf(pet)}Connection: close\r\n`)}garbage\r\n\r\n`, '201', closed],
      'POST in HTTP/1.0, POST': [add().replace('HTTP/1.1', 'HTTP/1.0') + add(), '201', closed],
    }));

  test('requests may be split into packets anywhere', () =>
    checkCases({
      'byte by byte': [add(), '201', { bytewise: true }],
      'byte by byte, broken': ['GET / HTTP/1.1\r\nbroken\r\n\r\n', '400 bad_request', { bytewise: true }],
    }));
});

test('a malformed request is logged with the request id of its response', async () => {
  const { port, log } = await startApp();
  const [answer] = await converse(port, ['garbage\r\n\r\n']);
  const lines = log().trim().split('\n');
  expect(JSON.parse(lines.at(-1) as string)).toMatchObject({
    reqId: answer?.headers['x-request-id'],
    status: 400,
    code: 'bad_request',
  });
});

describe('clients that disconnect', () => {
  test('a half-closed connection gets its response after a whole request, and 400 bad_request after a part of one', () =>
    checkCases({
      'after a POST': [add(), '201', { halfClose: true }],
      'after two POSTs': [add() + add(), '201, 201', { halfClose: true }],
      'after a GET': [list(), '200', { halfClose: true }],
      'within the request line': ['GET /v1', '400 bad_request', { halfClose: true }],
      'within the headers': [list().slice(0, -9), '400 bad_request', { halfClose: true }],
      'within the body': [add().slice(0, -5), '400 bad_request', { halfClose: true }],
      'within a chunk': [chunked(chunkedPet).slice(0, -9), '400 bad_request', { halfClose: true }],
      'after a POST and a part of another': [add() + add().slice(0, -5), '201, 400 bad_request', { halfClose: true }],
      'before anything was sent': ['', '', { halfClose: true }],
    }));

  test('a half-closed connection gets its response once the store has written', async () => {
    const { port, key, store } = await startApp();
    const { add: quick } = store.pets;
    store.pets.add = async (...input) => {
      await sleep(100);
      return quick(...input);
    };
    const sent = add().replace('KEY', key);
    const closed = await converse(port, [sent], { halfClose: true });
    const broken = await converse(port, [`${sent}garbage\r\n\r\n`, 'more'], { answers: 2 });
    expect([...closed, ...broken].map(summaryOf)).toEqual(['201', '201', '400 bad_request']);
    expect(await allIds(store)).toEqual([1n, 2n]);
  });

  test('a client that keeps sending after a rejection is disconnected', async () => {
    const { port } = await startApp();
    const socket = net.connect({ port, host: '127.0.0.1', allowHalfOpen: true });
    socket.on('data', () => undefined).on('error', () => undefined);
    const sending = setInterval(() => socket.write('garbage\r\n\r\n'), 50);
    await new Promise((closed) => socket.on('close', closed));
    clearInterval(sending);
  });

  test('a connection reset after CONNECT does not end the process', async () => {
    const { port, key: ownKey } = await startApp();
    for (const before of ['', add().replace('KEY', ownKey)]) {
      for (let waitMs = 0; waitMs < 10; waitMs++) {
        const socket = net.connect(port, '127.0.0.1').on('error', () => undefined);
        await new Promise<void>((sent) => socket.write(before + on('CONNECT', 'animals.example:443'), () => sent()));
        await sleep(waitMs);
        socket.resetAndDestroy();
      }
    }
    expect(await converse(port, [on('CONNECT', 'animals.example:443')])).toMatchObject([{ status: 405 }]);
  });

  test('a request whose connection is reset within its body is neither stored nor logged as an error', async () => {
    const server = await startApp();
    const socket = net.connect(server.port, '127.0.0.1');
    const request = add().replace('KEY', server.key);
    await new Promise<void>((sent) => socket.write(request.slice(0, -5), () => sent()));
    await sleep(50);
    socket.resetAndDestroy();
    await sleep(50);
    expect((await server.call('GET', '/v1/pets')).json).toEqual([]);
    expectQuietLog(server);
  });
});

test('a slow client gets 408 request_timeout and is disconnected within 12 seconds', {
  timeout: 30_000,
}, async () => {
  const slow = { deadlineMs: 12_000, gapMs: 900 };
  await checkCases({
    'sends nothing': ['', '408 request_timeout', slow],
    'starts the request line': ['GET /v1', '408 request_timeout', slow],
    'a letter of the headers each second': [[...list().slice(0, 60)], '408 request_timeout', slow],
    'no end to the headers': [list().slice(0, -2), '408 request_timeout', slow],
    'no body': [add().slice(0, -pet.length), '408 request_timeout', slow],
    'a letter of the body each second': [[add().slice(0, -pet.length), ...pet], '408 request_timeout', slow],
    'no last chunk': [chunked(chunkedPet).slice(0, -5), '408 request_timeout', slow],
    'no rest of a second request': [list() + list().slice(0, 20), '200, 408 request_timeout', slow],
    'no body of a second request': [add() + add().slice(0, -5), '201, 408 request_timeout', slow],
    'no rest of the body after an early 401': [
      withoutKey(add()).slice(0, -5),
      '401 missing_api_key',
      { ...slow, answers: 2 },
    ],
  });
});
