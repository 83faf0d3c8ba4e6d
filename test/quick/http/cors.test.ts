/** Tests that pages of CORS_ORIGINS can read every error whose request headers arrived, also those that come before the CORS plugin. */
import { describe, expect, test } from 'vitest';
import { newSecret } from '../../../src/core/accounts.ts';
import { startApp } from '../../support/app.ts';
import { converse, type RawAnswer, summaryOf } from '../../support/raw.ts';

const listed = ['https://app.example.com', 'https://b.example.com'];

/** The summaries of responses, and what gets them. ORIGIN stands for the Origin header, KEY for a valid key, JUNK for an invalid one. */
type Row = [expected: string, sent: string];

const host = 'Host: a\r\nORIGIN';
const key = 'Authorization: Bearer KEY\r\n';
const junk = `${host}Authorization: Bearer JUNK\r\n`;
const ask = (line: string, headers = host + key) => `${line} HTTP/1.1\r\n${headers}\r\n`;
const get = (target: string, headers?: string) => ask(`GET ${target}`, headers);
const post = (headers: string, body = '{}') => ask('POST /v1/pets', host + key + headers) + body;
const chunked = 'Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n';

const refusals: Record<string, Row> = {
  'a URL that cannot be decoded': ['400 invalid_url', get('/v1/pets/%zz')],
  'a URL that cannot be decoded, OPTIONS': ['400 invalid_url', ask('OPTIONS /v1/pets/%zz')],
  'a URL that is too long': ['414 uri_too_long', get(`/${'a'.repeat(8192)}`)],
  'an unknown expectation': ['417 expectation_failed', get('/v1/pets', `${host}Expect: a\r\n`)],
  'no Host': ['400 bad_request', get('/v1/pets', 'ORIGIN')],
  'a second Host': ['400 bad_request', get('/v1/pets', `Host: b\r\n${host}`)],
  'an unknown transfer coding': ['400 bad_request', post('Transfer-Encoding: gzip, chunked\r\n', '0\r\n\r\n')],
  'an unknown path': ['404 route_not_found', get('/nowhere')],
  'an unknown pet': ['404 pet_not_found', get('/v1/pets/1')],
  'a parameter that is empty': ['404 route_not_found', get('/v1/pets/')],
  'another method': ['405 method_not_allowed [GET HEAD POST OPTIONS]', ask('DELETE /v1/pets')],
  'another method, documents': ['405 method_not_allowed [GET HEAD OPTIONS]', ask('DELETE /openapi.json', host)],
  CONNECT: ['405 method_not_allowed []', ask('CONNECT a:443', host)],
  'no key': ['401 missing_api_key', get('/v1/pets', host)],
  'too many invalid keys': ['429 rate_limited', get('/v1/pets', junk)],
  'another media type': ['415 unsupported_media_type', post('Content-Type: text/plain\r\nContent-Length: 2\r\n')],
  'a long body': ['413 payload_too_large', post('Content-Type: application/json\r\nContent-Length: 99999\r\n', '')],
  'a body that is no JSON': ['400 invalid_json', post('Content-Type: application/json\r\nContent-Length: 2\r\n', '{{')],
  'a chunk without a size': ['400 bad_request', post(chunked, 'x\r\n')],
  'a second request with a broken chunk': [
    '405 method_not_allowed [GET HEAD POST OPTIONS], 400 bad_request',
    ask('DELETE /v1/pets') + post(chunked, 'x\r\n'),
  ],
  'a page that does not exist': ['404 route_not_found', get('/account/nowhere', host)],
  'a form of another site': ['403 forbidden', ask('POST /account/sign-in', `${host}Content-Length: 0\r\n`)],
};

interface Cors {
  /** How often Vary names Origin. */
  origins: number;
  /** The origin whose pages can read the response. */
  allow?: string;
  /** Whether they can read its headers. */
  exposes: boolean;
}

function corsOf({ headers }: RawAnswer): Cors {
  const allow = headers['access-control-allow-origin'];
  return {
    origins: headers.vary?.split(', ').filter((name) => name === 'Origin').length ?? 0,
    ...(allow !== undefined && { allow }),
    exposes: headers['access-control-expose-headers']?.includes('Retry-After') ?? false,
  };
}

/** Sends every request of the table, and expects its responses with these CORS headers. */
async function expectEach(cors: Cors, origin: string, corsOrigins?: string[]): Promise<void> {
  const { port, key } = await startApp({ corsOrigins, bounds: { rejectedKeys: 1 } });
  const values = { ORIGIN: `Origin: ${origin}\r\n`, KEY: key, JUNK: newSecret(false).key };
  const send = (text: string) => {
    const sent = text.replaceAll(/ORIGIN|KEY|JUNK/g, (name) => values[name as keyof typeof values]);
    return converse(port, [sent], { answers: Number.POSITIVE_INFINITY, halfClose: true });
  };
  await send(get('/v1/pets', junk));
  const answered = await Promise.all(
    Object.entries(refusals).map(async ([name, [, text]]) => {
      const answers = await send(text);
      return [name, answers.map((answer) => ({ summary: summaryOf(answer), ...corsOf(answer) }))];
    }),
  );
  const expected = Object.entries(refusals).map(([name, [summaries]]) => [
    name,
    summaries.split(', ').map((summary) => ({ summary, ...cors })),
  ]);
  expect(Object.fromEntries(answered)).toEqual(Object.fromEntries(expected));
}

describe('an error whose request headers have arrived', () => {
  test.each(listed)('can be read by pages of %s', (origin) =>
    expectEach({ origins: 1, allow: origin, exposes: true }, origin, listed),
  );

  test('has only Vary for another origin', () =>
    expectEach({ origins: 1, exposes: false }, 'https://evil.example.net', listed));

  test('has no CORS header without CORS_ORIGINS', () =>
    expectEach({ origins: 0, exposes: false }, listed[0] as string));
});

test('an error that comes before the end of the headers has only Vary', async () => {
  const { port } = await startApp({ corsOrigins: listed });
  const broken = `GET / HTTP/1.1\r\nHost: a\r\nOrigin: ${listed[0]}\r\nb@d: x\r\n\r\n`;
  for (const sent of ['hello\r\n\r\n', broken, broken.replace('1.1', '1.2')]) {
    const [answer] = await converse(port, [sent]);
    expect(corsOf(answer as RawAnswer)).toEqual({ origins: 1, exposes: false });
  }
});
