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

describe('one request', () => {
  test('that is not HTTP/1, or has a missing, duplicate or invalid Host', () =>
    checkCases({
      ...all('400 bad_request', {
        'garbage in several packets': ['gar', 'bage\r\n', '\r\nmore', 'and more'],
        'NUL bytes': '\0\0\0\0\r\n\r\n',
        'TLS hello on the plain port': Buffer.from('16030100c8010000c40303a1b2c3d4', 'hex'),
        'HTTP/2 preface': 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n',
        'PROXY protocol': `PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n${list()}`,
        'unknown method': list().replace('GET', 'FROB'),
        'method of RTSP': list().replace('GET', 'DESCRIBE'),
        'tabs in the request line': list().replace('GET /v1/pets HTTP', 'GET\t/v1/pets\tHTTP'),
        'no target': list().replace('/v1/pets ', ''),
        'no version': `GET /v1/pets\r\n${host}${key}\r\n`,
        'HTTP/1.2': get('/v1/pets', host + key, 'HTTP/1.2'),
        'HTTP/2.0 on HTTP/1 framing': get('/v1/pets', host + key, 'HTTP/2.0'),
        'no Host': get('/v1/pets', key),
        'no Host, absolute form': get('http://animals.example/v1/pets', key),
        'two Host headers': get('/v1/pets', host + host + key),
        'two Host headers in HTTP/1.0': get('/v1/pets', host + host + key, 'HTTP/1.0'),
        'Host with a path': get('/v1/pets', `Host: a/b\r\n${key}`),
        'Host with user information': get('/v1/pets', `Host: me@a\r\n${key}`),
        'Host with two ports': get('/v1/pets', `Host: a:1:2\r\n${key}`),
        'Host with bytes beyond ASCII': get('/v1/pets', `Host: \xe9\r\n${key}`),
        'no Host on POST': post(json + lengthOf(pet)).replace(host, ''),
      }),
      ...all('200', {
        'no Host in HTTP/1.0': get('/v1/pets', key, 'HTTP/1.0'),
        'empty Host': get('/v1/pets', `Host:\r\n${key}`),
        'Host is an IPv6 address': get('/v1/pets', `Host: [::1]:8080\r\n${key}`),
        'empty lines before the request': `\r\n\r\n${list()}`,
      }),
    }));

  test('with invalid headers, an ambiguous length, which would allow request smuggling, or invalid chunks', () =>
    checkCases({
      ...all('400 bad_request', {
        'bad header name': list('b@d: x\r\n'),
        'header without a colon': list('x\r\n'),
        'space before the colon': list('X : a\r\n'),
        'obsolete line folding': list('X: a\r\n b\r\n'),
        'NUL in a header': list('X: a\0b\r\n'),
        'bare LF after every line': list().replaceAll('\r\n', '\n'),
        'bare LF after one header': list('X: a\n'),
        'bare CR within a header': list('X: a\rY: b\r\n'),
        'Content-Length and Transfer-Encoding': post(
          `${json}${lengthOf(pet)}Transfer-Encoding: chunked\r\n`,
          chunkedPet,
        ),
        'Transfer-Encoding and Content-Length': post(
          `${json}Transfer-Encoding: chunked\r\n${lengthOf(pet)}`,
          chunkedPet,
        ),
        ...Object.fromEntries(
          ['-1', '+33', '0x21', '33.0', '3 3', '33, 33', '', '9'.repeat(23), '33\r\nContent-Length: 5'].map(
            (length) => [`Content-Length: ${length}`, post(`${json}Content-Length: ${length}\r\n`)],
          ),
        ),
        'two equal Content-Lengths': post(`${json}${lengthOf(pet)}${lengthOf(pet)}`),
        ...Object.fromEntries(
          [
            ...[
              'gzip',
              'identity',
              'xchunked',
              'chunked, gzip',
              'gzip, chunked',
              'chunked, chunked',
              '\x0bchunked',
              '',
            ],
            'chunked\r\nTransfer-Encoding: identity',
          ].map((coding) => [
            `Transfer-Encoding: ${coding}`,
            post(`${json}Transfer-Encoding: ${coding}\r\n`, chunkedPet),
          ]),
        ),
        'chunked in HTTP/1.0': chunked(chunkedPet).replace('HTTP/1.1', 'HTTP/1.0'),
        'chunk size of letters': chunked(`zz\r\n${pet}\r\n0\r\n\r\n`),
        'chunk size with 0x': chunked(`0x21\r\n${pet}\r\n0\r\n\r\n`),
        'chunk size beyond 64 bits': chunked(`fffffffffffffffff\r\n${pet}`),
        'chunk size ended by a bare LF': chunked(chunkedPet.replaceAll('\r\n', '\n')),
        'chunk longer than its size': chunked(`20\r\n${pet}\r\n0\r\n\r\n`),
        'endless chunk extension': chunked(`21;${'a'.repeat(20_000)}\r\n${pet}\r\n0\r\n\r\n`),
        'trailer without a colon': chunked(`21\r\n${pet}\r\n0\r\nx\r\n\r\n`),
      }),
      ...all('431 headers_too_large', {
        'oversized trailer': chunked(`21\r\n${pet}\r\n0\r\nX: ${'x'.repeat(20_000)}\r\n\r\n`),
        'one long header': list(`X: ${'x'.repeat(20_000)}\r\n`),
        'many empty headers': list('X:\r\n'.repeat(6000)),
        // Node's parser counts the URL as part of the headers and does not report which was too long.
        'a URL of 20,000 characters': get(`/v1/pets?cursor=${'a'.repeat(20_000)}`),
        'a header that does not end': [`GET / HTTP/1.1\r\nX: ${'x'.repeat(20_000)}`],
      }),
      ...all('201', {
        'Transfer-Encoding: CHUNKED': chunked(chunkedPet).replace(': chunked', ': CHUNKED'),
        'chunk extension and trailer': chunked(`21;a=b\r\n${pet}\r\n0\r\nX: a\r\n\r\n`),
        'a chunk for every byte': chunked(`${[...pet].map((byte) => `1\r\n${byte}\r\n`).join('')}0\r\n\r\n`),
      }),
    }));

  test('with a long URL or body, or a special target, method or upgrade', () =>
    checkCases({
      ...all('414 uri_too_long', {
        query: get(`/v1/pets?cursor=${'a'.repeat(8192)}`),
        path: get(`/v1/pets/${'1'.repeat(8192)}`),
        'no key': withoutKey(get(`/v1/pets?cursor=${'a'.repeat(8192)}`)),
      }),
      'just within': [get(`/v1/pets?cursor=${'a'.repeat(8192 - '/v1/pets?cursor='.length)}`), '400 invalid_cursor'],
      ...all('413 payload_too_large', {
        '65,537 bytes': add(pet.padEnd(65_537)),
        'a gigabyte, only announced': post(`${json}Content-Length: 1000000000\r\n`, ''),
        'in chunks': chunked(`11170\r\n${pet.padEnd(70_000)}\r\n0\r\n\r\n`),
      }),
      'a next request on the same socket': [add(pet.padEnd(65_537)) + add(), '413 payload_too_large, 201'],
      'a body just within': [add(pet.padEnd(65_536)), '201'],
      ...all('400 invalid_url', {
        'bad percent-encoding': get('/v1/pets/%zz'),
        'percent-encoding of no UTF-8': get('/v1/pets/%ff'),
        'absolute form without a host': get('http:///'),
        'a fragment': get('/v1/pets#limit=1'),
      }),
      ...all('400 bad_request', {
        'raw bytes beyond ASCII': get('/v1/pets/\xe9'),
        'no slash at the start': get('v1/pets'),
        backslashes: get('\\v1\\pets'),
        'another scheme': get('ftp://animals.example/v1/pets'),
        'absolute form of another host': get('http://other.example/v1/pets'),
        'absolute form of another port': get('http://animals.example:81/v1/pets'),
      }),
      ...all('404 route_not_found', {
        'GET *': get('*'),
        'encoded slash': get('/v1%2fpets'),
        'dot segments': get('/v1/../v1/pets'),
        'absolute form without a path': get('http://animals.example'),
      }),
      ...all('200', {
        'absolute form in capitals': get('HTTP://ANIMALS.example/v1/pets'),
        'encoded letters': get('/v1/%70ets'),
        'GET with a body': list(`${lengthOf(pet)}${json}`) + pet,
        'upgrade to a WebSocket': list('Connection: Upgrade\r\nUpgrade: websocket\r\n'),
        'upgrade to HTTP/2': list('Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAM\r\n'),
      }),
      'OPTIONS *': [on('OPTIONS', '*'), '204'],
      ...all(
        '405 method_not_allowed [GET HEAD POST OPTIONS]',
        Object.fromEntries(['TRACE', 'PROPFIND', 'M-SEARCH', 'QUERY', 'SOURCE'].map((method) => [method, on(method)])),
      ),
      ...all('405 method_not_allowed []', {
        'CONNECT without a key': withoutKey(on('CONNECT', 'animals.example:443')),
        'CONNECT and then a request': on('CONNECT', 'animals.example:443') + add(),
        'CONNECT and then a tunnel': [on('CONNECT', 'animals.example:443'), Buffer.from('1603010001', 'hex'), 'x'],
      }),
    }));

  const expecting = (expectation: string, more = lengthOf(pet)) => post(`${json}Expect: ${expectation}\r\n${more}`, '');

  test('with Expect gets 100 only if the server wants the body, and 417 unless it expects that', () =>
    checkCases({
      ...all('417 expectation_failed', {
        unknown: expecting('a-pony'),
        empty: expecting(''),
        'longer than 100-continue': expecting('100-continued'),
        'without a key': withoutKey(expecting('a-pony')),
      }),
      'good key': [[expecting('100-Continue'), pet], '100, 201', { gapMs: 50 }],
      'body sent without waiting': [expecting('100-continue') + pet, '100, 201'],
      'in HTTP/1.0, which ignores it': [expecting('a-pony').replace('/1.1', '/1.0') + pet, '201'],
      'no key': [withoutKey(expecting('100-continue')), '401 missing_api_key'],
      'too large': [expecting('100-continue', lengthOf(pet.padEnd(65_537))), '413 payload_too_large'],
      'not JSON': [expecting('100-continue').replace('application/json', 'text/plain'), '415 unsupported_media_type'],
      'unknown path': [expecting('100-continue').replace('/v1/pets', '/v1/cats'), '404 route_not_found'],
      'GET, which has no body': [list('Expect: 100-continue\r\n'), '200'],
    }));

  const typed = (...lines: string[]) => [lines.join(' and '), post(`${lines.join('')}${lengthOf(pet)}`)] as const;
  const types = (values: string[]) => Object.fromEntries(values.map((value) => typed(`Content-Type: ${value}\r\n`)));

  test('of JSON in UTF-8 is accepted, however its type is written; any other gets 415', () =>
    checkCases({
      ...all('415 unsupported_media_type', {
        ...types([
          ...['text/plain', '*/*', 'application/vnd.api+json', 'application/json+x', ''],
          ...['application/json charset=utf-8', 'application/json, text/plain', 'application/json; charset=latin1'],
          ...['application/json; charset=utf8', 'application/json; charset', 'application/json; charset="utf-8'],
          ...['application/json; charset=utf-8; charset=latin1', 'application/json; a', 'application/json; a="b'],
        ]),
        ...Object.fromEntries([
          typed(''),
          typed(json, json),
          typed(json, 'Content-Type: text/plain\r\n'),
          typed(json, 'Content-Encoding: identity, gzip\r\n'),
        ]),
      }),
      ...all('201', {
        ...types([
          ...['APPLICATION/JSON', 'Application/Json;Charset=Utf-8', 'application/json; charset="UTF-8"'],
          ...['application/json\t;\tcharset=utf-8', 'application/json;', 'application/json; a="charset=latin1"'],
          ...[
            'application/json; a="x\\"y; charset=latin1"; charset=utf-8',
            'application/json; profile="https://a/b,c"',
          ],
        ]),
        ...Object.fromEntries([typed(json, 'Content-Encoding: Identity\r\n')]),
      }),
    }));

  const bodies = (table: Record<string, string>) =>
    Object.fromEntries(Object.entries(table).map(([name, body]) => [name, add(body)]));

  test('whose body is no JSON gets invalid_json, and one that is no animal invalid_body', () =>
    checkCases({
      ...all(
        '400 invalid_json',
        bodies({
          'overlong UTF-8': '{"name":"\xc0\xaf","categoryId":7}',
          'surrogate in UTF-8': '{"name":"\xed\xa0\x80","categoryId":7}',
          'cut UTF-8': '{"name":"x","categoryId":7}\xe2\x82',
          'byte order mark': `\xef\xbb\xbf${pet}`,
          'UTF-16': `\xfe\xff${[...pet].map((letter) => `\0${letter}`).join('')}`,
          'white space': ' \n',
          'two objects': pet + pet,
          'raw NUL': '{"name":"a\0b","categoryId":7}',
          'doubled member, escaped': '{"name":"x","n\\u0061me":"y","categoryId":7}',
          'doubled __proto__': '{"__proto__":1,"__proto__":2,"name":"x","categoryId":7}',
          '30,000 open brackets': '['.repeat(30_000),
          '30,000 arrays deep': '['.repeat(30_000) + ']'.repeat(30_000),
        }),
      ),
      ...all(
        '400 invalid_body',
        bodies({
          'no body': '',
          array: `[${pet}]`,
          'escaped surrogates in the wrong order': '{"name":"\\udc00\\ud800","categoryId":7}',
          'everything in __proto__': `{"__proto__":${pet}}`,
          'toString as a field': '{"name":"x","categoryId":7,"toString":1}',
          'far beyond 64 bits': '{"name":"x","categoryId":1e999999999}',
        }),
      ),
    }));
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
