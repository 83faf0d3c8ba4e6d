/** Tests HTTP over raw sockets: malformed requests, credentials, size limits, pipelining and clients that disconnect. */
import net from 'node:net';
import { describe, expect, test } from 'vitest';
import type { PetPage } from '../../../src/core/pets.ts';
import { startApp, type TestApp } from '../../support/app.ts';
import { converse, summaryOf } from '../../support/raw.ts';
import { ask, get, host, json, key, lengthOf, open, pet, post } from './requests.ts';

/** A request, or its packets. `KEY` stands for the test's API key. */
type Sent = string | (string | Buffer)[];
/** Summaries of the responses, and what gets them. */
type Row = [expected: string, sent: Sent[]];

const coded = 'Transfer-Encoding: chunked\r\n';
const chunkedPet = `21\r\n${pet}\r\n0\r\n\r\n`;
const letters = (count: number) => 'x'.repeat(count);

const list = (more = '') => get('/v1/pets', open + more);
const hosts = (...lines: string[]) => lines.map((line) => get('/v1/pets', line + key));
const send = (headers: string, body = pet) => ask('POST /v1/pets', open + headers) + body;
const add = (body?: string) => post(body);
const chunked = (body: string) => send(json + coded, body);
const typed = (...lines: string[]) => send(`${lines.join('')}${lengthOf(pet)}`);
const types = (...values: string[]) => values.map((value) => typed(`Content-Type: ${value}\r\n`));
const expecting = (expectation: string, more = lengthOf(pet)) => send(`${json}Expect: ${expectation}\r\n${more}`, '');
const withoutKey = (request: string) => request.replace(key, '');
const inOldHttp = (request: string) => request.replace('HTTP/1.1', 'HTTP/1.0');

async function allIds({ store }: TestApp): Promise<bigint[]> {
  const ids: bigint[] = [];
  for (let after: bigint | undefined = 0n; after !== undefined; ) {
    const { pets, next }: PetPage = await store.pets.list({ limit: 100, after });
    ids.push(...pets.map((each) => BigInt(JSON.parse(each).id)));
    after = next;
  }
  return ids;
}

/** Sends all requests to one server. Checks the responses, that the store holds exactly what was acknowledged, and the log. */
async function check(rows: Row[], options: Parameters<typeof converse>[2] = {}): Promise<void> {
  const server = await startApp();
  const acknowledged: bigint[] = [];
  const faults: string[] = [];
  const requests = rows.flatMap(([expected, all]) => all.map((sent) => ({ expected, sent })));
  const answered = requests.map(async ({ expected, sent }) => {
    const parts = [sent].flat().map((part) => (typeof part === 'string' ? part.replaceAll('KEY', server.key) : part));
    const finals = expected.split(', ').filter((summary) => summary !== '100').length;
    const answers = await converse(server.port, parts, { answers: finals, ...options });
    for (const { status, text } of answers) if (status === 201) acknowledged.push(BigInt(JSON.parse(text).id));
    const found = answers.map(summaryOf).join(', ');
    if (found !== expected) faults.push(`${found}, not ${expected}: ${String(sent).slice(0, 500)}`);
  });
  await Promise.all(answered);
  expect(faults).toEqual([]);
  expect(acknowledged.sort((a, b) => Number(a - b))).toEqual(await allIds(server));
  const ids = server.logged('"msg":"request"').map(({ reqId }) => reqId);
  expect(new Set(ids).size).toBe(ids.length);
  // Client errors must not alert the operator.
  expect(server.log()).not.toMatch(/"level":[456]0/);
}

describe('one request', () => {
  test('that is not HTTP/1, or has a missing, duplicate or invalid Host', () =>
    check([
      [
        '400 bad_request',
        [
          ['gar', 'bage\r\n', '\r\nmore', 'and more'],
          // TLS and HTTP/2.
          [Buffer.from('16030100c8010000c40303a1b2c3d4', 'hex')],
          'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n',
          ...['FROB', 'get'].map((method) => list().replace('GET', method)),
          list().replace('/v1/pets ', ''),
          ...hosts('', host + host, 'Host: me@a\r\n', 'Host: a:1:2\r\n', 'Host: \xe9\r\n'),
          get('http://animals.example/v1/pets', key),
          inOldHttp(get('/v1/pets', host + open)),
          // The parser knows it.
          list().replace('GET', 'PLAY').replace('HTTP/1.1', 'RTSP/1.0'),
        ],
      ],
      ['200', [inOldHttp(get('/v1/pets', key)), ...hosts('Host:\r\n', 'Host: [::1]:8080\r\n'), `\r\n\r\n${list()}`]],
    ]));

  test('with invalid headers, an ambiguous length (request smuggling), or invalid chunks', () =>
    check([
      [
        '400 bad_request',
        [
          ...['b@d: x', 'X : a', 'X: a\r\n b', 'X: a\0b', 'X: a\rY: b'].map((line) => list(`${line}\r\n`)),
          list().replaceAll('\r\n', '\n'),
          send(json + lengthOf(pet) + coded, chunkedPet),
          send(json + coded + lengthOf(pet), chunkedPet),
          send(json + lengthOf(pet) + lengthOf(pet)),
          ...['-1', '+33', '3 3', '33, 33', '', '9'.repeat(23), '33\r\nContent-Length: 5'].map((length) =>
            send(`${json}Content-Length: ${length}\r\n`),
          ),
          ...['gzip', 'identity', 'chunked, gzip', 'gzip, chunked', '\x0bchunked', ''].map((coding) =>
            send(`${json}Transfer-Encoding: ${coding}\r\n`, chunkedPet),
          ),
          inOldHttp(chunked(chunkedPet)),
          inOldHttp(chunked(chunkedPet).replace('/pets', '/%ff')).replace(key, 'Connection: keep-alive\r\n') + list(),
          ...['zz', '20', `21;${letters(20_000)}`].map((size) => chunked(chunkedPet.replace('21', size))),
          chunked(`fffffffffffffffff\r\n${pet}`),
          chunked(chunkedPet.replaceAll('\r\n', '\n')),
          chunked(chunkedPet.replace('\r\n\r\n', '\r\nx\r\n\r\n')),
        ],
      ],
      [
        '431 headers_too_large',
        [
          chunked(chunkedPet.replace('\r\n\r\n', `\r\nX: ${letters(20_000)}\r\n\r\n`)),
          list(`X: ${letters(20_000)}\r\n`),
          list('X:\r\n'.repeat(99)),
          // Node's parser counts the URL as part of the headers and does not report which was too long.
          get(`/v1/pets?cursor=${letters(20_000)}`),
        ],
      ],
      [
        '201',
        [chunked(chunkedPet).replace(': chunked', ': CHUNKED'), chunked(`21;a=b\r\n${pet}\r\n0\r\nX: a\r\n\r\n`)],
      ],
    ]));

  test('with a long URL or body, or a special target, method or upgrade', () =>
    check([
      ['414 uri_too_long', [get(`/v1/pets?cursor=${letters(8192)}`), get(`/v1/pets/${letters(8192)}`)]],
      ['400 invalid_cursor', [get('/v1/pets?cursor='.padEnd(8192, 'x'))]],
      [
        '413 payload_too_large',
        [
          // Only announced.
          send(`${json}Content-Length: 1000000000\r\n`, ''),
          chunked(`11170\r\n${pet.padEnd(70_000)}\r\n0\r\n\r\n`),
        ],
      ],
      [
        '400 invalid_url',
        [
          ask('OPTIONS *'),
          ...['/v1/pets/%ff', 'http:///', 'http:///v1/pets', 'http://a/v1/pets#limit=1', 'http://a:b/'].map((url) =>
            get(url),
          ),
        ],
      ],
      ['400 bad_request', ['/v1/pets/\xe9', 'v1/pets', 'ftp://animals.example/v1/pets'].map((url) => get(url))],
      ['404 route_not_found', ['/v1%2fpets', '/v1/../v1/pets'].map((url) => get(url))],
      ['200', [get('http://animals.example')]],
      [
        '200',
        [
          // RFC 9112, section 3.2.2: Host is ignored.
          get('HTTP://other.example:81/v1/pets'),
          list('X:\r\n'.repeat(98)),
          get('/v1/%70ets'),
          list(`${lengthOf(pet)}${json}`) + pet,
          get('/v1/pets#limit=1'),
          list('Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAM\r\n'),
        ],
      ],
      ['405 method_not_allowed [GET HEAD POST OPTIONS]', ['TRACE', 'QUERY'].map((method) => ask(`${method} /v1/pets`))],
      // Node closes the connection.
      ['', [ask('CONNECT a:443')]],
    ]));

  test('with a body that does not end gets 413 as soon as it is too large', () => {
    const endless = chunked(`11170\r\n${pet}`);
    const rows: Row[] = [['413 payload_too_large', [endless + letters(65_600), [endless, letters(65_600)]]]];
    return check(rows, { gapMs: 50 });
  });

  test('with Expect gets 100 only if the server wants the body, and 417 unless it expects that', () =>
    check(
      [
        [
          '417 expectation_failed',
          [...['a-pony', '', '100-continued'].map((value) => expecting(value)), withoutKey(expecting('a-pony'))],
        ],
        ['100, 201', [[expecting('100-Continue'), pet], expecting('100-continue') + pet]],
        // It ignores the header.
        ['201', [inOldHttp(expecting('a-pony') + pet)]],
        ['401 missing_api_key', [withoutKey(expecting('100-continue'))]],
        ['413 payload_too_large', [expecting('100-continue', lengthOf(pet.padEnd(65_537)))]],
        ['415 unsupported_media_type', [expecting('100-continue').replace('application/json', 'text/plain')]],
        ['404 route_not_found', [expecting('100-continue').replace('/v1/pets', '/v1/cats')]],
        ['200', [list('Expect: 100-continue\r\n')]],
      ],
      { gapMs: 50 },
    ));

  test('of JSON in UTF-8 is accepted, however its type is written; any other gets 415', () =>
    check([
      [
        '415 unsupported_media_type',
        [
          ...types(
            'text/plain',
            'application/vnd.api+json',
            'application/jsonx',
            '',
            'application/json, text/plain',
            'application/json; charset=latin1',
            'application/json; charset="utf-8',
            'application/json; a',
            'application/json; charset=utf-8; charset=latin1',
            // What curl -d sends by itself.
            'application/x-www-form-urlencoded',
          ),
          typed(),
          typed(json, json),
          ...['gzip', 'identity, gzip'].map((coding) => typed(json, `Content-Encoding: ${coding}\r\n`)),
        ],
      ],
      [
        '201',
        [
          ...types(
            'Application/Json;Charset=Utf-8',
            'application/json; charset=utf8',
            'application/json\t;\tcharset="UTF-8"',
            'application/json;',
            'application/json; a="x\\"y; charset=latin1"; charset=utf-8',
            'application/json; profile="https://a/b,c"',
          ),
          typed(json, 'Content-Encoding: Identity\r\n'),
        ],
      ],
    ]));

  test('whose body is no JSON gets invalid_json, and one that is no animal invalid_body', () =>
    check([
      [
        '400 invalid_json',
        [
          // Overlong UTF-8, a surrogate, a cut character.
          '{"name":"\xc0\xaf","categoryId":7}',
          '{"name":"\xed\xa0\x80","categoryId":7}',
          `${pet}\xe2\x82`,
          ' \n',
          '{"name":"a\0b","categoryId":7}',
        ].map(add),
      ],
      ['400 invalid_body', [`[${pet}]`, `{"__proto__":${pet}}`, `{"__proto__":1,${pet.slice(1)}`].map(add)],
    ]));

  test('that has no body, and announces none, is a POST with an empty one (RFC 9112, section 6.3)', () =>
    check(
      ['/v1/pets', '/quickstart/messages', '/account/sign-in'].flatMap((path): Row[] => {
        const form = 'Content-Type: application/x-www-form-urlencoded\r\nSec-Fetch-Site: same-origin\r\n';
        const empty = (more = '') => ask(`POST ${path}`, open + (path.endsWith('sign-in') ? form : json) + more);
        return [
          ['400 invalid_body', [inOldHttp(empty()), empty('Content-Length: 00\r\n')]],
          ['400 invalid_body', [empty('Expect: 100-continue\r\n')]],
        ];
      }),
      { deadlineMs: 2000 },
    ));
});

describe('an Authorization header', () => {
  const authorized = (value: string) => get('/v1/pets', `${host}Authorization:${value}\r\n`);
  const named = (line: string) => get('/v1/pets', `${host}${line}\r\n`);

  test('needs a bearer token: the scheme in any case, spaces, and exactly a known key (RFC 6750, RFC 9110)', () =>
    check([
      [
        '200',
        [...['Bearer KEY', '  bEaReR   KEY  ', '\tBearer KEY\t'].map(authorized), named('AUTHORIZATION: Bearer KEY')],
      ],
      [
        '401 missing_api_key',
        [
          ...['', 'Bearer', 'KEY', 'Bearer\tKEY', 'Bearer\xa0KEY', '\xa0Bearer KEY'].map(authorized),
          ...['Beare KEY', 'Bearers KEY', 'Basic KEY', 'Basic eDp4, Bearer KEY', ', Bearer KEY'].map(authorized),
          ...['X-API-Key: KEY', 'Proxy-Authorization: Bearer KEY'].map(named),
        ],
      ],
      [
        '401 invalid_api_key',
        [
          'KEYx',
          'KEYKEY',
          'KEY,',
          'KEY=',
          'KEY%00',
          '"KEY"',
          'token=KEY',
          'x',
          letters(8000),
          '\tKEY',
          '\xa0KEY',
          'KEY\xc2\xa0',
          '\xef\xbb\xbfKEY',
          'Bearer KEY',
          'KEY KEY',
          'KEY, Bearer KEY',
          'KEY\r\nAuthorization: Bearer KEY',
        ].map((value) => authorized(`Bearer ${value}`)),
      ],
      [
        '400 bad_request',
        [authorized('Bearer KEY\0'), authorized('Bearer\r\n KEY'), named('Authorization : Bearer KEY')],
      ],
      // Before it reads the body.
      ['401 missing_api_key', [ask('POST /v1/pets', `${host}Content-Type: text/plain\r\nContent-Length: 1000000\r\n`)]],
    ]));
});

describe('several requests on one socket', () => {
  test('are served one after the other, also behind an error; a malformed request closes it', () =>
    check(
      [
        [
          '201, 400 bad_request',
          [
            [add(), 'garbage\r\n\r\n'],
            [add(), chunked('zz\r\n')],
          ],
        ],
        ['201, 417 expectation_failed', [[add(), list('Expect: a-pony\r\n')]]],
        ['201, 400 invalid_url, 201', [[add(), get('/%zz'), add()]]],
        ['401 missing_api_key, 201', [[withoutKey(add()), add()]]],
        ['413 payload_too_large, 201', [[add(pet.padEnd(65_537)), add()]]],
      ],
      { gapMs: undefined },
    ));

  test('are served behind the page of a form that is refused', async () => {
    const { port } = await startApp();
    const head = 'Origin: http://127.0.0.1\r\nSec-Fetch-Site: same-origin\r\nAccept: text/html\r\n';
    const form = ask('POST /account/sign-in', host + head + json + lengthOf(pet)) + pet;
    const answers = await converse(port, [form, get('/docs/nothing')], { answers: 2 });
    expect(answers.map(({ status }) => status)).toEqual([415, 404]);
  });

  test('in one packet: the first is answered, and the connection closes, whatever follows', () =>
    check(
      [
        ['201', [add() + add(), `${add()}garbage\r\n\r\n`, add() + chunked('zz\r\n')]],
        ['200', [list() + list(), [`${list()}garbage\r\n`, 'more', 'and more'], list() + get('/%zz')]],
      ],
      { answers: 2 },
    ));

  const closing = send(`${json}${lengthOf(pet)}Connection: close\r\n`);

  test('nothing is read after a malformed request or Connection: close', () =>
    check(
      [
        ['400 bad_request', [`garbage\r\n\r\n${add()}`, list().replace(host, 'Host: a b\r\n') + add()]],
        ['417 expectation_failed', [list('Expect: a-pony\r\n') + add()]],
        ['201', [closing + add(), `${closing}garbage\r\n\r\n`, inOldHttp(add()) + add()]],
      ],
      // One more than expected, so the server has to close the connection.
      { answers: 2 },
    ));
});

describe('clients that disconnect', () => {
  test('a half-closed connection gets its response after a whole request, and 400 bad_request after a part of one', () =>
    check(
      [
        ['201', [add()]],
        ['200', [list()]],
        ['201', [add() + add()]],
        ['400 bad_request', ['GET /v1', list().slice(0, -9), add().slice(0, -5), chunked(chunkedPet).slice(0, -9)]],
        ['201', [`${add()}garbage\r\n\r\n`]],
        ['200', [`${list()}garbage\r\n\r\n`]],
        ['400 invalid_json', [`${add('{x}')}garbage\r\n\r\n`]],
        ['', ['']],
      ],
      { halfClose: true },
    ));

  test('a part of a request behind one that the store has not answered yet gets no response', async () => {
    const { app, port, key, store } = await startApp();
    const { add: addPet } = store.pets;
    // The server has read the half-close before the animal is added.
    const read = new Promise((resolve) => {
      app.server.once('connection', (socket) => void socket.once('end', resolve));
    });
    store.pets.add = (...input) => read.then(() => addPet(...input));
    const sent = `${add()}GET /v1`.replace('KEY', key);
    const answers = await converse(port, [sent], { answers: 2, halfClose: true });
    expect(answers.map(summaryOf)).toEqual(['201']);
  });

  test('a part of a request behind one that was answered gets 400 bad_request', () =>
    check([['201, 400 bad_request', [[add(), 'GET /v1']]]], { halfClose: true, gapMs: undefined }));

  test('a client that keeps sending after a rejection is disconnected', async () => {
    const { port } = await startApp();
    const socket = net.connect({ port, host: '127.0.0.1', allowHalfOpen: true });
    socket.on('data', () => {}).on('error', () => {});
    const sending = setInterval(() => socket.write('garbage\r\n\r\n'), 50);
    await new Promise((closed) => socket.on('close', closed));
    clearInterval(sending);
  });
});
