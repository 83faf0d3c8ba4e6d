/** The processor time of each parser of client input is in proportion to the input, and no request takes 25 ms of it, whatever it sends. */
import { once } from 'node:events';
import { connect } from 'node:net';
import { describe, expect, test } from 'vitest';
import { passwordFault } from '../../../src/account/password-rules.ts';
import { type PagesApp, startPages } from '../../support/account-pages.ts';
import { faultOf } from '../../support/processor-time.ts';

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

interface Parser {
  /** Of the input, in bytes or characters. */
  limit: number;
  /** Returns a function that reads an input, and may check the response. */
  open: (app: PagesApp) => (text: string) => unknown;
  inputs: Record<string, Make>;
}

/** Sends a request on a connection of its own, and expects one of these statuses. */
const send =
  (statuses: number[], requestOf: (text: string, app: PagesApp) => [head: string, body?: string]): Parser['open'] =>
  (app) =>
  async (text) => {
    const [head, body = ''] = requestOf(text, app);
    const socket = connect(app.port, '127.0.0.1');
    let answer = '';
    socket.on('data', (part) => {
      answer ||= part.toString('latin1');
    });
    socket.write(
      Buffer.from(`${head}\r\nConnection: close\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n`, 'latin1'),
    );
    socket.write(body);
    await once(socket, 'close');
    expect(statuses, answer).toContain(Number(/^HTTP\/1\.1 (\d+)/.exec(answer)?.[1]));
  };

const keyed = (line: string, key: string) => `${line} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\n`;
const getPets = (target: string) =>
  send([200, 400, 404], (text, { key }) => [`${keyed(`GET ${target}${text}`, key)}X: y`]);
const formHead = [
  'POST /account/sign-up HTTP/1.1\r\nHost: a\r\nAccept: text/html\r\nSec-Fetch-Site: same-origin',
  'Content-Type: application/x-www-form-urlencoded',
].join('\r\n');

/** Combining marks of two classes in turn, which normalization sorts. */
const marks = '\u0315\u0334';
let types = 0;

const parsers: Record<string, Parser> = {
  'a form': {
    limit: 16 * 1024,
    open: send([400], (text) => [formHead, text]),
    inputs: {
      'equal fields': fill('a&'),
      'different fields': differ((name) => `${name}&`),
      'wrong percent-encoding': fill('%', 'name='),
      'what is not UTF-8': fill('%ff', 'name='),
      'a name of marks': (length) => fill(marks, 'name=')(length / 2),
      'a password of marks': (length) => fill(marks, 'name=ada&password=')(length / 2),
    },
  },
  'a JSON body': {
    limit: 64 * 1024,
    open: send([400], (text, { key }) => [`${keyed('POST /v1/pets', key)}Content-Type: application/json`, text]),
    inputs: {
      'open brackets': fill('['),
      'nested objects': (length) => `${'{"a":'.repeat(length / 6)}1${'}'.repeat(length / 6)}`,
      integers: fill('1,', '[', '1]'),
      'integers of 16 digits': fill('1234567890123456,', '{"a":[', '1]}'),
      digits: fill('1', '{"categoryId":', '}'),
      'zeros before a digit': fill('0', '{"categoryId":0.', '1}'),
      'escaped names': differ((name) => `"\\u0061${name}":1,`, '{"x":1.5,', '"":1}'),
      'names of integers': differ((name) => `"${Number.parseInt(name, 36) * 40961}":1,`, '{"x":1.5,', '"":1}'),
      escapes: fill('\\u0061', '{"name":"', '"}'),
      backslashes: fill('\\\\', '{"x":1.5,"name":"', '"}'),
    },
  },
  'a query': {
    limit: 8000,
    open: getPets('/v1/pets?'),
    inputs: {
      'equal parameters': fill('a&'),
      'different parameters with plus signs': differ((name) => `${name}+&`),
      'wrong percent-encoding': differ((name) => `${name}=%&`),
      digits: fill('1', 'limit='),
    },
  },
  'a cursor': {
    limit: 8000,
    open: getPets('/v1/pets?cursor='),
    inputs: {
      'a long id': (length) => Buffer.from(fill('1', 'after:')(length * 0.7)).toString('base64url'),
    },
  },
  'a path': {
    limit: 8000,
    open: getPets('/'),
    inputs: {
      digits: fill('1', 'v1/pets/'),
      'wrong percent-encoding': fill('%', 'v1/pets/'),
    },
  },
  'If-None-Match': {
    limit: 15 * 1024,
    open: send([200], (text, { key }) => [`${keyed('GET /v1/pets', key)}If-None-Match: ${text}`]),
    inputs: {
      tags: fill('"a",'),
      quotes: fill('"'),
      'tags that are not closed': fill('"a '),
    },
  },
  Authorization: {
    limit: 15 * 1024,
    open: send([401], (text) => [`GET /v1/pets HTTP/1.1\r\nHost: a\r\nAuthorization: ${text}`]),
    inputs: {
      'spaces before the key': fill(' ', 'Bearer ', 'a b'),
      'spaces in the key': fill(' ', 'Bearer a', 'b'),
      lines: fill('a\r\nAuthorization: ', '', 'a'),
    },
  },
  cookies: {
    limit: 15 * 1024,
    open: send([200], (text) => [`GET /account/sign-in HTTP/1.1\r\nHost: a\r\nCookie: ${text}`]),
    inputs: {
      'equal cookies': fill('session=a;'),
      'different cookies': differ((name) => `${name}=;`),
      'wrong percent-encoding': differ((name) => `${name}=%;`),
      spaces: differ((name) => `${name} = ;`),
      quotes: fill('"', 'session='),
    },
  },
  'Content-Type': {
    limit: 15 * 1024,
    // Fastify keeps what it has parsed, so each request sends another.
    open: send([400, 415], (text, { key }) => {
      types += 1;
      return [`${keyed('POST /v1/pets', key)}Content-Type: application/json${text};n=${types}`, '{}'];
    }),
    inputs: {
      semicolons: fill(';'),
      spaces: fill(' ', '', '('),
      'different parameters': differ((name) => `;${name}=b`),
      'an open quote': fill('a', ';a="'),
      'parameters in quotes': fill(';a=', ';a="', '"'),
      'escaped quotes': fill('\\"', ';a="', '"'),
      charsets: fill(';charset=utf-8', '', 'x'),
    },
  },
  'Accept-Encoding': {
    limit: 15 * 1024,
    open: send([200], (text) => [`GET /openapi.json HTTP/1.1\r\nHost: a\r\nAccept-Encoding: ${text}`]),
    inputs: {
      codings: fill('gzip;q=0,'),
      spaces: fill(' ', 'gzip', ';q=0 x'),
    },
  },
  'X-Forwarded-For': {
    limit: 15 * 1024,
    open: send([404], (text) => [`GET /nowhere HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: ${text}`]),
    inputs: {
      proxies: fill('127.0.0.1,', '', '::1'),
      spaces: fill(' ', '192.0.2.1', '1'),
      brackets: fill('['),
      'a zone': fill('a', 'fe80::1%'),
    },
  },
  'other headers': {
    limit: 15 * 1024,
    open: send([200, 204, 400, 404, 431], (text, { key }) => [
      `POST /v1/pets HTTP/1.1\r\n${/^Host/.test(text) ? '' : 'Host: a\r\n'}Authorization: Bearer ${key}\r\n${text}`,
    ]),
    inputs: {
      'Host of letters': fill('a', 'Host: ', '/'),
      'Host of percent signs': fill('%', 'Host: '),
      Accept: fill('text/html,', 'Accept: '),
      lines: fill('b:\r\n', '', 'c: d'),
    },
  },
  'the rules for passwords': {
    limit: 256,
    open: () => (text) => passwordFault(text, 'ada'),
    inputs: {
      letters: fill('kW7#qZ2!vR9$xT4%', '', 'é'),
      words: fill('supercalifragilisticexpialidocious', '', 'kW7#qZ2!'),
      marks: fill(marks, 'kW7#qZ2!'),
      'the name of the account': fill('ada', '', 'kW7#qZ2!'),
      'what surrounds letters': fill('4@8({[</369&#!1/|0$5+7%2/', '', 'kW7#qZ2!'),
    },
  },
};

describe.for(Object.keys(parsers))('%s', (name) => {
  const { limit, open, inputs } = parsers[name] as Parser;

  test('takes time in proportion to its length', { timeout: 120_000 }, async () => {
    const read = open(
      await startPages({ trustProxy: ['10.0.0.0/8', '127.0.0.1', '::1'], corsOrigins: ['https://a.example'] }),
    );
    const faults: string[] = [];
    for (const [input, make] of Object.entries(inputs)) {
      const fault = await faultOf(read, make, limit);
      if (fault !== undefined) faults.push(`${input}: ${fault}`);
    }
    expect(faults).toEqual([]);
  });
});
