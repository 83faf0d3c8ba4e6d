/** The processor time of each parser of client input is in proportion to the input, and no request takes 25 ms of it, whatever it sends. */
import { once } from 'node:events';
import { connect } from 'node:net';
import { expect, test } from 'vitest';
import { passwordFault } from '../../../src/account/password-rules.ts';
import { type PagesApp, startPages } from '../../support/account-pages.ts';
import { faultOf } from './processor-time.ts';

type Make = (length: number) => string;

/** Repeats `piece`, between `before` and `after`. */
const fill =
  (piece: string, before = '', after = ''): Make =>
  (length) =>
    before + piece.repeat(Math.max(0, Math.floor((length - before.length - after.length) / piece.length))) + after;

/** Joins pieces that all differ. */
const differ =
  (piece: (name: string) => string, before = '', after = ''): Make =>
  (length) => {
    let text = before;
    for (let at = 0; ; at++) {
      const next = piece(at.toString(36));
      if (text.length + next.length + after.length > length) return text + after;
      text += next;
    }
  };

/** Returns a function that reads an input. */
type Open = (app: PagesApp) => (text: string) => unknown;

let sent = 0;

/** Sends a request on a connection of its own. In its head, KEY is a valid key, TEXT the input and N a new number; without TEXT, the input is the body. */
const send =
  (head: string): Open =>
  ({ port, key }) =>
  async (text) => {
    const body = head.includes('TEXT') ? '' : text;
    const filled = head
      .replace('KEY', key)
      .replace('TEXT', () => text)
      .replace('N', `${sent++}`);
    const socket = connect(port, '127.0.0.1');
    let answer = '';
    socket.on('data', (part) => {
      answer ||= part.toString('latin1');
    });
    socket.write(Buffer.from(`${filled}\r\nConnection: close\r\nContent-Length: ${body.length}\r\n\r\n`, 'latin1'));
    socket.write(body);
    await once(socket, 'close');
    expect(answer).toMatch(/^HTTP\/1\.1 [24]/);
  };

const withKey = (line: string) => `${line} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer KEY`;
const withHeader = (line: string, header: string) => `${line} HTTP/1.1\r\nHost: a\r\n${header}TEXT`;
const form = [
  'POST /account/sign-up HTTP/1.1\r\nHost: a\r\nAccept: text/html\r\nSec-Fetch-Site: same-origin',
  'Content-Type: application/x-www-form-urlencoded',
].join('\r\n');
const ofHeader = 15 * 1024;

/** Combining marks of two classes in turn, which normalization sorts. */
const marks = '\u0315\u0334';

test.for<[what: string, limit: number, open: Open, ...inputs: Make[]]>([
  [
    'a form',
    16 * 1024,
    send(form),
    fill('a&'),
    differ((name) => `${name}&`),
    fill('%', 'name='),
    fill('%ff', 'name='),
    (length) => encodeURI(fill(marks, 'name=')(length / 6)),
    (length) => encodeURI(fill(marks, 'name=ada&password=')(length / 6)),
  ],
  [
    'a JSON body',
    64 * 1024,
    send(`${withKey('POST /v1/pets')}\r\nContent-Type: application/json`),
    (length) => `${'{"a":'.repeat(length / 6)}1${'}'.repeat(length / 6)}`,
    fill('['),
    fill('1,', '[', '1]'),
    fill('1234567890123456,', '{"a":[', '1]}'),
    fill('1', '{"categoryId":', '}'),
    fill('0', '{"categoryId":0.', '1}'),
    fill('\\u0061', '{"name":"', '"}'),
    fill('0', '{"categoryId":1.', '1}'),
    fill('10', '{"categoryId":1.', 'e-9}'),
    fill('1.0,', '{"a":[', '1]}'),
    differ((name) => `"\\u0061${name}":1,`, '{"x":1.5,', '"":1}'),
    differ((name) => `"${Number.parseInt(name, 36) * 40961}":1,`, '{"x":1.5,', '"":1}'),
    fill('\\\\', '{"x":1.5,"name":"', '"}'),
  ],
  [
    'a target',
    8000,
    send(withKey('GET /TEXT')),
    fill('a&', 'v1/pets?'),
    fill('1', 'v1/pets?limit='),
    fill('1', 'v1/pets/'),
    fill('%', 'v1/pets/'),
    differ((name) => `${name}+&`, 'v1/pets?'),
    differ((name) => `${name}=%&`, 'v1/pets?'),
    (length) => `v1/pets?cursor=${Buffer.from(fill('1', 'after:')(length * 0.7)).toString('base64url')}`,
  ],
  [
    'If-None-Match',
    ofHeader,
    send(`${withKey('GET /v1/pets')}\r\nIf-None-Match: TEXT`),
    fill('"a",'),
    fill('"'),
    fill('"a '),
  ],
  [
    'Authorization',
    ofHeader,
    send(withHeader('GET /v1/pets', 'Authorization: ')),
    fill(' ', 'Bearer ', 'a b'),
    fill(' ', 'Bearer a', 'b'),
    fill('a\r\nAuthorization: ', '', 'a'),
  ],
  [
    'cookies',
    ofHeader,
    send(withHeader('GET /account/sign-in', 'Cookie: ')),
    fill('session=a;'),
    differ((name) => `${name}=;`),
    differ((name) => `${name} = ;`),
    differ((name) => `${name}=%;`),
    fill('"', 'session='),
  ],
  [
    'Content-Type',
    ofHeader,
    // Fastify keeps what it has parsed, so each request sends another.
    send(`${withKey('POST /v1/pets')}\r\nContent-Type: application/jsonTEXT;n=N`),
    fill(';'),
    fill(' ', '', '('),
    differ((name) => `;${name}=b`),
    fill('a', ';a="'),
    fill(';a=', ';a="', '"'),
    fill('\\"', ';a="', '"'),
    fill(';charset=utf-8', '', 'x'),
  ],
  [
    'Accept-Encoding',
    ofHeader,
    send(withHeader('GET /openapi.json', 'Accept-Encoding: ')),
    fill('gzip;q=0,'),
    fill(' ', 'gzip', ';q=0 x'),
  ],
  [
    'X-Forwarded-For',
    ofHeader,
    send(withHeader('GET /nowhere', 'X-Forwarded-For: ')),
    fill('127.0.0.1,', '', '::1'),
    fill(' ', '192.0.2.1', '1'),
    fill('['),
    fill('a', 'fe80::1%'),
  ],
  ['Host', ofHeader, send('GET /nowhere HTTP/1.1\r\nHost: TEXT'), fill('a', '', '/'), fill('%')],
  ['header lines', ofHeader, send(withHeader('GET /nowhere', '')), fill('b:\r\n', '', 'c: d')],
  [
    'the rules for passwords',
    256,
    () => (text) => passwordFault(text, 'ada'),
    fill('kW7#qZ2!vR9$xT4%', '', 'é'),
    fill('supercalifragilisticexpialidocious', '', 'kW7#qZ2!'),
    fill(marks, 'kW7#qZ2!'),
    fill('ada', '', 'kW7#qZ2!'),
    fill('4@8({[</369&#!1/|0$5+7%2/', '', 'kW7#qZ2!'),
  ],
])('%s of %d characters or bytes takes time in proportion to its length', async (row) => {
  const [, limit, open, ...inputs] = row;
  const read = open(
    await startPages({ trustProxy: ['10.0.0.0/8', '127.0.0.1', '::1'], corsOrigins: ['https://a.example'] }),
  );
  for (const make of inputs) expect(await faultOf(read, make, limit), make(60)).toBeUndefined();
});
