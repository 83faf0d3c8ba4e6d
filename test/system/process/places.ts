/** Raw requests that put a given word into every place of a request that a client controls. */

export type Place = (word: string) => string;

const end = '\r\n\r\n';

/** Place → function that writes a raw request with a word in that place. Requests that need authentication use `key`. */
export function placesOf(key: string): Record<string, Place> {
  const host = 'Host: localhost\r\n';
  const open = `${host}Authorization: Bearer ${key}\r\n`;
  const get = (target: string, headers = open) => `GET ${target} HTTP/1.1\r\n${headers}\r\n`;
  const withHeader = (line: string) => get('/v1/pets', `${open}${line}\r\n`);
  const withKey = (line: string) => get('/v1/pets', `${host}${line}\r\n`);
  const post = (body: string, more = '', target = '/v1/pets') =>
    `POST ${target} HTTP/1.1\r\n${open}Content-Type: application/json\r\n${more}Content-Length: ${Buffer.byteLength(body)}${end}${body}`;
  const chunked = (chunks: string) =>
    `POST /v1/pets HTTP/1.1\r\n${open}Content-Type: application/json\r\nTransfer-Encoding: chunked${end}${chunks}`;

  const authorization: Record<string, Place> = {
    'bearer key': (word) => withKey(`Authorization: Bearer ${word}`),
    'key as scheme': (word) => withKey(`Authorization: ${word} x`),
    'basic password': (word) => withKey(`Authorization: Basic ${Buffer.from(`user:${word}`).toString('base64')}`),
  };
  const headers: Record<string, Place> = {
    ...Object.fromEntries(
      [
        'X-Api-Key',
        'Cookie',
        'User-Agent',
        'Referer',
        'Origin',
        'X-Forwarded-For',
        'Forwarded',
        'X-Request-Id',
        'traceparent',
        'tracestate',
        'If-None-Match',
        'Accept',
        'Content-Type',
        'Expect',
        'Connection',
        'Upgrade',
        'Transfer-Encoding',
        'Content-Length',
      ].map((name) => [name, (word: string) => withHeader(`${name}: ${word}`)]),
    ),
    Host: (word) => get('/v1/pets', `Host: ${word}.example\r\n`),
    'a Host that is not valid': (word) => get('/v1/pets', `Host: ${word}/${word}\r\n`),
    'name of a header': (word) => withHeader(`X-${word}: 1`),
    'header without a colon': (word) => withHeader(word),
    'header that is too long': (word) => withHeader(`X: ${word.repeat(1000)}`),
  };
  const target: Record<string, Place> = {
    'value of status': (word) => get(`/v1/pets?status=${word}`),
    'value of cursor': (word) => get(`/v1/pets?cursor=${word}`),
    'name of a parameter': (word) => get(`/v1/pets?${word}=1`),
    'fragment of the URL': (word) => get(`/v1/pets#${word}`),
    'URL that is too long': (word) => get(`/v1/pets?cursor=${word.repeat(300)}`),
    'path parameter': (word) => get(`/v1/pets/${word}`),
    'unknown path': (word) => get(`/${word}`),
    'bad percent-encoding': (word) => get(`/v1/pets/${word}%zz`),
    'user information of the URL': (word) => get(`http://${word}:${word}@animals.example/v1/pets`),
    method: (word) => get('/v1/pets').replace('GET', word),
    'tunnel of CONNECT': (word) => get(`${word}.example:443`).replace('GET', 'CONNECT'),
    'not HTTP': (word) => `${word}${end}`,
  };
  const body: Record<string, Place> = {
    name: (word) => post(`{"name":"${word}","categoryId":7}`),
    'name of a refused animal': (word) => post(`{"name":"${word}","categoryId":"7"}`),
    status: (word) => post(`{"name":"x","categoryId":7,"status":"${word}"}`),
    'name of a field': (word) => post(`{"name":"x","categoryId":7,"${word}":1}`),
    'not JSON': (word) => post(word),
    'text after the JSON': (word) => post(`{"name":"x","categoryId":7}${word}`),
    'other media type': (word) => post(word).replace('application/json', `text/${word}`),
    'body that is too large': (word) => post(word.repeat(3000)),
    'size of a chunk': (word) => chunked(`${word}\r\n`),
    'extension of a chunk': (word) => chunked(`1;${word}\r\n{\r\n0${end}`),
    trailer: (word) => chunked(`1\r\n{\r\n0\r\n${word}: ${word}${end}`),
    'Idempotency-Key': (word) => post('{"name":"x","categoryId":7}', `Idempotency-Key: ${word}\r\n`),
    'Idempotency-Key of another body': (word) => post('{"name":"y","categoryId":7}', `Idempotency-Key: ${word}\r\n`),
    message: (word) => post(`{"message":"${word}"}`, '', '/quickstart/messages'),
    'message that is refused': (word) => post(`{"message":["${word}"]}`, '', '/quickstart/messages'),
  };
  return { ...authorization, ...headers, ...target, ...body };
}

/** Places where the word is a parameter or field name, which the error repeats. The server parses the text after # as a query. */
export const names = ['name of a parameter', 'fragment of the URL', 'name of a field'];
