/** Tests of a POST whose headers announce no body: it has an empty one (RFC 9112, section 6.3). */
import { expect, test } from 'vitest';
import { startApp } from '../../support/app.ts';
import { converse } from '../../support/raw.ts';

const json = 'application/json';
const form = 'application/x-www-form-urlencoded';
const missing = 'The body is missing.';

test.each([
  ['/v1/pets', json, missing],
  ['/v1/pets', undefined, missing],
  ['/quickstart/messages', json, missing],
  ['/quickstart/messages', undefined, missing],
  ['/account/sign-in', form, 'Name is required. Password is required.'],
  ['/account/sign-up', form, 'Name is required. Password is required.'],
])('POST %s without Content-Length and Transfer-Encoding, as %s, gets 400 at once', async (path, type, message) => {
  const { port, key } = await startApp();
  const request = (version: string, more = '') =>
    `POST ${path} HTTP/${version}\r\nHost: a\r\nAuthorization: Bearer ${key}\r\nSec-Fetch-Site: same-origin\r\n` +
    `${type ? `Content-Type: ${type}\r\n` : ''}${more}\r\n`;
  const next = 'GET /v1/cats HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n';
  for (const sent of [request('1.0'), request('1.1') + next, request('1.1', 'Expect: 100-continue\r\n') + next]) {
    const expected = [[400, message], ...(sent.endsWith(next) ? [[404, expect.any(String)]] : [])];
    const answers = await converse(port, [sent], { answers: expected.length, deadlineMs: 2000 });
    const final = answers.filter(({ status }) => status !== 100);
    expect(final.map(({ status, text }) => [status, JSON.parse(text).message])).toEqual(expected);
  }
});

test('a form without a body gets the page of the form again', async () => {
  const { port } = await startApp();
  const headers = `Host: a\r\nAccept: text/html\r\nSec-Fetch-Site: same-origin\r\nContent-Type: ${form}\r\n`;
  const [page] = await converse(port, [`POST /account/sign-in HTTP/1.1\r\n${headers}\r\n`], { deadlineMs: 2000 });
  expect(page?.status).toBe(400);
  expect(page?.text).toMatch(/role="alert".*Name is required\..*Password is required\..*<form /s);
});
