/** Tests that the server sends the same with prepared responses and without. */
import type { FastifyInstance } from 'fastify';
import { expect, test } from 'vitest';
import { startApp } from '../../support/app.ts';
import { converse } from '../../support/raw.ts';
import { ask, open, pet, post } from './requests.ts';

const get = (path: string, more = '') => ask(`GET ${path}`, open + more);
const large = `{"name":"${'é'.repeat(1000)}","categoryId":1}`;

const again = 'Idempotency-Key: a\r\n';

/** One after the other, because the ids of their pets depend on that. */
const creates = [
  post(),
  post(pet, again),
  post(pet, again),
  post(pet.replace('7', '8'), again),
  ...Array(20).fill(post(Buffer.from(large).toString('latin1'))),
];
const others = [
  get('/v1/pets'),
  get('/v1/pets?limit=2'),
  get('/v1/pets?limit=2'),
  get('/v1/pets/1'),
  get('/v1/pets/999'),
  get('/v1/pets/1', 'If-None-Match: *\r\n'),
  get('/v1/pets/1', 'If-Match: "x"\r\n'),
  get('/v1/pets', 'Connection: close\r\n'),
  get('/v1/pets?limit=2').replace('GET', 'HEAD'),
  get('/v1/pets?limit=0'),
  get('/v1/pets', 'Upgrade: a\r\n'),
  get('/v1/pets').replace(/Authorization.*\r\n/, ''),
  get('/v1/pets').replace('KEY', 'none'),
  get('/cats'),
  post('{}'),
  get('/v1/pets?limit=2', 'Origin: https://a.example\r\n'),
  get('/v1/pets/1', 'Origin: https://b.example\r\n'),
  get('/v1/pets').replace('HTTP/1.1', 'HTTP/1.0'),
  get('/openapi.json'),
  get('/docs'),
  get('/v1/store/orders'),
];

test.for<[what: string, headers: Record<string, string | string[]>]>([
  ['nothing', {}],
  ['headers', { 'x-plugin': 'a', vary: 'Accept', 'retry-after': '5' }],
  ['a header that the response has, too', { 'cache-control': 'public', etag: '"a"' }],
  ['two values', { 'x-plugin': ['a', 'b'] }],
  ['headers of security', { 'content-security-policy': "default-src 'self'", 'x-content-type-options': 'other' }],
  ['a header of the connection', { connection: 'close' }],
  ['a header of the route', { link: '</a>; rel="a"', deprecation: '@1' }],
])('if plugins add %s', async ([, headers]) => {
  async function send(plain: boolean) {
    const { port, key } = await startApp({
      plain,
      // Without it, documents have the port.
      baseUrl: 'http://animals.example.com/v1',
      corsOrigins: ['https://a.example'],
      watch: async (app) =>
        void app.addHook('onRequest', (_request, reply, done) => {
          reply.headers(headers);
          done();
        }),
    });
    async function answerTo(request: string) {
      const isHead = request.startsWith('HEAD');
      const sent = request.replace('KEY', key);
      const [answer] = await converse(
        port,
        [isHead ? sent.replace('\r\n\r\n', '\r\nConnection: close\r\n\r\n') : sent],
        { isHead },
      );
      const { date, 'x-request-id': id, ...rest } = answer?.headers ?? {};
      expect([typeof date, typeof id]).toEqual(['string', 'string']);
      return { request: request.slice(0, 200), status: answer?.status, headers: rest, text: answer?.text };
    }
    const answers = [];
    for (const request of creates) answers.push(await answerTo(request));
    return [...answers, ...(await Promise.all(others.map(answerTo)))];
  }
  expect(await send(false)).toEqual(await send(true));
});

test.each([true, false])(
  'a value with a line break is not sent, whether responses are prepared or not: %s',
  async (plain) => {
    const watch = async (app: FastifyInstance) =>
      void app.addHook('onRequest', (_request, reply, done) => {
        reply.header('x-plugin', 'a\r\nSet-Cookie: a=b');
        done();
      });
    const { port, key } = await startApp({ plain, watch });
    for (const request of [get('/v1/pets'), post()]) {
      const [answer] = await converse(port, [request.replace('KEY', key)]);
      expect([answer?.status, answer?.headers['set-cookie']], request).toEqual([500, undefined]);
    }
  },
);

test('one hook onSend alone runs before a response of the API: prepared responses skip the others', async () => {
  const prefixes: string[] = [];
  await startApp({
    watch: async (app) => {
      const { addHook } = app;
      app.addHook = function (this: FastifyInstance, ...hook: Parameters<typeof addHook>) {
        if (String(hook[0]) === 'onSend') prefixes.push(this.prefix);
        return addHook.apply(this, hook);
      } as typeof addHook;
    },
  });
  expect(prefixes.filter((prefix) => !prefix.startsWith('/account'))).toEqual(['']);
});
