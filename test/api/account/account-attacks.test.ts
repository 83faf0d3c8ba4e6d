import { describe, expect, test } from 'vitest';
import { newToken } from '../../../src/core/people.ts';
import {
  alertOf,
  curlOf,
  keyOf,
  makeKey,
  next,
  type PagesApp,
  password,
  plainText,
  redirect,
  rotateKey,
  startPages,
  stateOf,
  toKeys,
  wrong,
} from '../../support/account-pages.ts';
import { metricValue, valuesOf } from '../../support/app.ts';
import type { Page } from '../../support/form-client.ts';
import { openSocket } from '../../support/process.ts';

const evil = 'evil.example.com';

describe('a form of another site (CSRF)', () => {
  type Headers = Record<string, string | undefined>;
  const noSite = { 'sec-fetch-site': undefined };

  /** Headers of such a form, at a server with this URL. */
  const headersAt = (url: string): Headers[] =>
    [
      undefined,
      'null',
      '',
      `https://${evil}`,
      'http://127.0.0.1:1',
      'http://127.0.0.1',
      url.replace('http', 'https'),
      `${url}.${evil}`,
      `${url}, https://${evil}`,
    ]
      .map((origin): Headers => ({ origin, ...noSite }))
      .concat(
        { origin: undefined, referer: `${url}/account`, ...noSite },
        ...['cross-site', 'same-site', 'none', '', 'same-origin, cross-site', 'SAME-ORIGIN'].map((site) => ({
          'sec-fetch-site': site,
        })),
      );

  test('is refused, whatever its path, and changes nothing', async () => {
    const app = await startPages();
    const account = await app.addPerson('ada');
    const ada = await app.enter(account);
    await makeKey(ada);
    const forms: [path: string, form: Record<string, string>][] = [
      ['/account/sign-in', { name: 'ada', password }],
      ['/account/sign-up', { name: 'eve', password: next }],
      ['/account/sign-out', {}],
      ['/account/sign-out-everywhere', {}],
      ['/account/password', { current: password, password: next }],
      ['/account/delete', { current: password }],
      ['/account/keys', { name: 'evil', scopes: 'pets:read', expires: 'never' }],
      ['/account/keys/2', { name: 'evil', scopes: 'pets:read' }],
      ['/account/keys/2/rotate', { overlap: 'none' }],
      ['/account/keys/2/revoke', {}],
      [await app.addLink('invitation'), { name: 'eve', password: next }],
      [await app.addLink('reset', account), { password: next }],
    ];
    const before = await stateOf(app);
    for (const headers of headersAt(app.url)) {
      for (const [path, form] of forms) {
        const refused = await ada.post(path, form, headers);
        const what = `${JSON.stringify(headers)}: ${path}`;
        expect([refused.status, refused.cookies], what).toEqual([403, []]);
        expect(alertOf(refused)).toBe('This form was not sent from a page of this service.');
      }
      expect(await stateOf(app), JSON.stringify(headers)).toEqual(before);
    }
    expect(app.events().map(({ event }) => event)).toEqual(['key_created']);
    // The cookie has the port in its name.
    ada.jar.set('session-80', ada.jar.get(ada.sessionName) as string);
    const defaultPort = { ...noSite, host: 'LOCALHOST:80', origin: 'http://localhost' };
    for (const own of [noSite, { origin: undefined }, {}, defaultPort])
      expect((await ada.post('/account/keys/99/revoke', {}, own)).status).toBe(404);
  });

  const rebound = { origin: `http://${evil}`, ...noSite };
  const https = { host: 'animals.example.com', 'x-forwarded-proto': 'https', ...noSite };
  const baseUrl = 'https://animals.example.com/v1';
  test.each([
    [{}, { ...rebound, 'x-forwarded-host': evil }],
    [{ trustProxy: ['127.0.0.1'] }, { ...rebound, 'x-forwarded-host': evil }],
    [{ baseUrl: 'http://animals.example.com/v1' }, { ...rebound, host: evil }],
    // A sandboxed frame's, and that of a scheme that browsers do not know.
    [{ trustProxy: ['127.0.0.1'] }, { ...noSite, 'x-forwarded-proto': 'h2', origin: 'null' }],
    [
      { baseUrl, trustProxy: ['127.0.0.1'] },
      { ...https, origin: 'http://animals.example.com' },
    ],
    [
      { baseUrl, trustProxy: ['127.0.0.1'] },
      { ...https, origin: 'https://animals.example.com:8443' },
    ],
    // CORS_ORIGINS may call the API only.
    [{ corsOrigins: [`https://${evil}`] }, { origin: `https://${evil}`, ...noSite }],
    [{ corsOrigins: [`https://${evil}`] }, { origin: `https://${evil}`, 'sec-fetch-site': 'same-site' }],
  ])('is refused, and its script can read no page: settings %j, headers %j', async (options, headers: Headers) => {
    const app = await startPages(options);
    const ada = await app.enterAs('ada');
    const before = await stateOf(app);
    expect((await ada.post('/account/sign-out-everywhere', {}, headers)).status).toBe(403);
    expect(await stateOf(app)).toEqual(before);
    expect((await ada.get('/account', headers)).headers).not.toHaveProperty('access-control-allow-credentials');
  });
});

/** The tags of a page and the names of their attributes, and the text that is outside of tags. */
function structureOf({ text }: Page) {
  const tag = /<!?\/?[a-z][a-z0-9]*(?:\s+[a-z-]+(?:="[^"<>]*")?)*\s*>/gi;
  const tags = [...text.matchAll(tag)].map(([found]) => found.replace(/="[^"]*"/g, '=').replace(/\s+/g, ' '));
  return { tags, rest: text.replace(tag, '') };
}

describe('markup in a name (XSS)', () => {
  const names = [
    '<script>alert(1)</script>',
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    '--></form><script>alert(1)</script><!-- ',
    '&lt;b&gt;&#60;i&#62;&quot;',
    '<%= process.exit() %>',
  ];

  /** Each page that shows the name of the account or of a key. */
  async function pagesWith(app: PagesApp, name: string): Promise<Page[]> {
    const account = await app.addPerson(name);
    const ada = await app.enter(account);
    const made = await makeKey(ada, { name });
    const id = (await app.store.accounts.listKeys(name))[0]?.id as number;
    await app.store.accounts.recordUses([{ id, lastUsedAt: new Date('2027-01-01'), deprecatedCalls: 3 }]);
    const pages = [made, await ada.get('/account'), await ada.get(`/account/keys/${id}`)];
    pages.push(await rotateKey(ada, id, '1h'));
    await ada.post(`/account/keys/${id + 1}/revoke`);
    return [
      ...pages,
      await ada.get('/account'),
      await ada.get('/account/settings'),
      await ada.post('/account/password', { current: wrong, password: next }),
      await ada.post('/account/keys', { name, scopes: [], expires: 'never' }),
      await app.open().get(await app.addLink('reset', account)),
      await app.signIn(name, wrong),
      await app.open().post('/account/sign-up', { name, password: 'short' }),
      await app.open().post(await app.addLink('invitation'), { name, password: 'short' }),
    ];
  }

  test('is shown as text: it adds no tag and no attribute to any page', async () => {
    const harmless = (await pagesWith(await startPages(), 'website')).map(structureOf);
    let app = await startPages();
    for (const [count, name] of names.entries()) {
      // Each name fails twice from one address, which may fail ten times.
      if (count % 4 === 0) app = await startPages();
      for (const [at, page] of (await pagesWith(app, name)).entries()) {
        const { tags, rest } = structureOf(page);
        expect(tags, `${name} on page ${at}`).toEqual(harmless[at]?.tags);
        expect(rest, `${name} on page ${at}`).not.toMatch(/[<>]/);
        if (/[<>"']/.test(name)) expect(page.text, `${name} on page ${at}`).not.toContain(name);
      }
    }
  });

  test('of a field, a choice, a path or a query is shown as text or nowhere', async () => {
    const app = await startPages();
    const ada = await app.enterAs('ada');
    const markup = '"><img src=x onerror=alert(1)>';
    const good = { name: 'website', scopes: 'pets:read', expires: 'never' };
    const pages: Page[] = [];
    for (const form of [{ [markup]: markup }, { scopes: [markup, 'pets:read'] }])
      pages.push(await makeKey(ada, { ...good, ...form }));
    const paths = ['sign-in?done=', 'links/', ''];
    for (const path of paths) pages.push(await app.open().get(`/account/${path}${encodeURIComponent(markup)}`));
    for (const page of pages) {
      expect(structureOf(page).rest).not.toMatch(/[<>]/);
      expect(page.text).not.toContain('<img src=x');
    }
    expect(pages.map(({ status }) => status)).toEqual([400, 400, 200, 404, 404]);
    expect(alertOf(pages[0] as Page)).toContain('is not a known field.');
  });
});

test.each([undefined, ['127.0.0.1']])(
  'a redirect stays on this server (open redirect), TRUST_PROXY %s',
  async (trustProxy) => {
    const app = await startPages({ trustProxy });
    await app.addPerson('ada');
    const client = app.open();
    const query = `?next=https://${evil}&return_to=%2F%2F${evil}&to=%2F%2F${evil}&done=%0d%0aLocation:%20//${evil}`;
    const headers = {
      'x-forwarded-host': evil,
      'x-forwarded-prefix': `//${evil}`,
      forwarded: `host=${evil}`,
      'x-original-url': `//${evil}`,
      'x-rewrite-url': `//${evil}`,
      referer: `https://${evil}`,
    };
    for (const path of ['/account', '/account/settings', '/account/keys', '/account/sign-out'])
      for (const more of [headers, { ...headers, host: evil }]) {
        const { status, headers: answered } = await client.get(path + query, more);
        expect([status, answered.location], path).toEqual([
          303,
          expect.stringMatching(/^\/account(\/sign-in(\?to=\/(settings|keys))?)?$/),
        ]);
      }
    const form = { name: 'ada', password };
    expect(await client.post(`/account/sign-in${query}`, form)).toMatchObject(toKeys);
    expect(await client.get(`/account/sign-in${query}`)).toMatchObject(redirect('/account'));
    const out = await client.post(`/account/sign-out${query}`);
    expect(out).toMatchObject(redirect('/account/sign-in?done=signed-out'));
    expect((await client.post('/account/sign-in', { ...form, next: `https://${evil}` })).status).toBe(400);
  },
);

test.each([
  // Also with an underscore, as in a Docker network.
  ...['animal_store:4616', '[::1]:3000'].map((host) => [host, `http://${host}`]),
  // A shell treats these specially.
  ...['a$(id)', 'a;id', "a'id", 'a`id`', '!id', '~root', 'a%24b', 'a,b'].map((host) => [host, '']),
])('a Host header comes into the curl line only if no shell treats it specially: %s', async (host, root) => {
  const app = await startPages({ trustProxy: ['127.0.0.1'] });
  const ada = await app.enterAs('ada');
  ada.jar.set(`session-${/\d+$/.exec(host) ?? 80}`, ada.jar.get(ada.sessionName) as string);
  const page = await makeKey(ada, { scopes: 'pets:read' }, { host, 'x-forwarded-host': "a';id" });
  // Node refuses some.
  if (page.status === 400) return;
  expect(curlOf(page)).toBe(`curl -H 'Authorization: Bearer ${keyOf(page)}' '${root}/v1/pets'`);
});

describe('too many account pages', () => {
  const sentence = 'You have opened too many pages: try again in a minute.';
  const from = (address: string) => ({ 'x-forwarded-for': address });

  function expectLimited(page: Page) {
    expect([page.status, alertOf(page), page.cookies]).toEqual([429, sentence, []]);
    expect(Number(page.headers['retry-after'])).toBeGreaterThan(50);
  }

  test('of an account, with any number of sessions and addresses, get 429; others are served', async () => {
    const app = await startPages({ trustProxy: ['127.0.0.1'], limits: { pages: 3 } });
    const ada = await app.addPerson('ada');
    const visits = ['/account', '/account/settings', '/account/nothing'];
    for (const [at, path] of visits.entries())
      expect((await (await app.enter(ada, from(`192.0.2.${at}`))).get(path)).status).not.toBe(429);
    const client = await app.enter(ada, from('192.0.2.9'));
    expectLimited(await client.get('/account'));
    expectLimited(await client.post('/account/keys', { name: 'website', scopes: 'pets:read', expires: 'never' }));
    expect(await app.store.accounts.listKeys('ada')).toEqual([]);
    const { status, headers, text } = await client.get('/account', { accept: '*/*' });
    expect([status, headers['content-type'], JSON.parse(text)]).toEqual([
      429,
      'application/json',
      { code: 'rate_limited', message: sentence, status: 429 },
    ]);
    expect((await (await app.enterAs('ben', from('192.0.2.9'))).get('/account')).status).toBe(200);
    expect((await app.open(from('192.0.2.9')).get('/account/sign-in')).status).toBe(200);
  });

  test('of a network get 429, apart for those who are signed in; another network is served', async () => {
    const app = await startPages({ trustProxy: ['127.0.0.1'], limits: { pages: 2, pagesOfNetwork: 4 } });
    const stranger = app.open(from('192.0.2.1'));
    for (const path of ['/account/sign-in', '/account/sign-up', '/account', '/account/nothing'])
      expect((await stranger.get(path)).status).not.toBe(429);
    stranger.jar.set(stranger.sessionName, newToken().token);
    expectLimited(await stranger.get('/account/sign-in'));
    expectLimited(await app.signIn('ada', password, from('192.0.2.1')));
    const [ada, ben, cleo] = await Promise.all(
      ['ada', 'ben', 'cleo'].map((name) => app.enterAs(name, from('192.0.2.1'))),
    );
    for (const client of [ada, ben]) {
      for (let times = 0; times < 2; times++) expect((await client?.get('/account'))?.status).toBe(200);
      // What its account may not send does not count for the network.
      expectLimited((await client?.get('/account')) as Page);
    }
    expectLimited((await cleo?.get('/account')) as Page);
    expect((await (await app.enterAs('dan', from('192.0.2.2'))).get('/account')).status).toBe(200);
    expect((await app.get('/v1/pets', { headers: from('192.0.2.1') })).status).toBe(200);
    expect((await valuesOf(app.metrics, 'limited_requests_total')).pages).toBe(5);
  });
});

describe('for a client that is gone', () => {
  /** Ada with a key, whose list waits in the store until `release`; how often it was asked for, and how often it was rendered. */
  async function startHeld() {
    const app = await startPages();
    const ada = await app.enterAs('ada');
    await makeKey(ada);
    const seen = { asked: 0, rendered: 0 };
    const gate = Promise.withResolvers<void>();
    const { listOwnKeys } = app.store.accounts;
    app.store.accounts.listOwnKeys = async (...given) => {
      seen.asked += 1;
      await gate.promise;
      const { active, ended } = await listOwnKeys(...given);
      for (const key of active) {
        const text = () => {
          seen.rendered += 1;
          return 'website';
        };
        key.name = { toString: text, replace: text } as unknown as string;
      }
      return { active, ended };
    };
    const open = async () => {
      const socket = await openSocket(app.port);
      const cookie = `${ada.sessionName}=${ada.jar.get(ada.sessionName)}`;
      socket.write(
        `GET /account HTTP/1.1\r\nHost: 127.0.0.1:${app.port}\r\nAccept: text/html\r\nCookie: ${cookie}\r\n\r\n`,
      );
      return socket;
    };
    const gone = () => expect.poll(() => metricValue(app.metrics, 'in_flight'));
    return { app, ada, seen, open, gone, release: gate.resolve };
  }

  test('nothing is rendered, and the store is not asked if it waited for its turn', async () => {
    const { app, ada, seen, open, gone, release } = await startHeld();
    const first = [await open(), await open()];
    await expect.poll(() => seen.asked).toBe(2);
    const waiting = [await open(), await open()];
    await gone().toBe(4);
    for (const socket of [...first, ...waiting]) socket.resetAndDestroy();
    await gone().toBe(0);
    release();
    // Behind them in the line.
    expect((await ada.get('/account/sign-in')).status).toBe(303);
    expect(seen).toEqual({ asked: 2, rendered: 0 });
    expect((await ada.get('/account')).status).toBe(200);
    // Proves that the check above can fail.
    expect(seen.rendered).toBeGreaterThan(0);
    expect(app.log()).not.toMatch(/"level":[456]0/);
  });
});

test("someone else's key cannot be changed, rotated, revoked or seen, and the response does not tell whether it exists", async () => {
  const app = await startPages();
  const [ada, eve] = [await app.enterAs('ada'), await app.enterAs('eve')];
  const key = keyOf(await makeKey(ada, { name: 'canary-key' }));
  await makeKey(eve);
  const [{ id } = { id: 0 }] = await app.store.accounts.listKeys('ada');
  const before = await stateOf(app);
  // The last is eve's own.
  const written = [0, -1, `0${id}`, `%20${id}`, `${id}.0`, `${id}e0`, '0x2', `${id}%00`, '２', `0${id + 1}`];
  const others = ['18446744073709551618', '9'.repeat(400), '__proto__', `..%2f${id}`, "2' OR '1'='1"];
  for (const given of [id, 1, 999, ...written, ...others]) {
    const path = `/account/keys/${encodeURI(String(given)).replaceAll('%25', '%')}`;
    const pages = [await eve.post(`${path}/rotate`, { overlap: 'none' }), await eve.post(`${path}/revoke`)];
    pages.push(await eve.post(path, { name: 'evil', scopes: 'pets:read' }), await eve.get(path));
    for (const page of pages)
      expect([page.status, alertOf(page)], path).toEqual([
        404,
        'You have no such key, or it was rotated or revoked in the meantime.',
      ]);
    // Nothing looks up, nor renders, the list of keys, which is expensive.
    for (const page of pages) expect(page.text, path).not.toContain('Active keys');
  }
  const list = plainText(await eve.get(`/account?account=ada&id=${id}`));
  expect(list).not.toMatch(new RegExp(`canary-key|${key.slice(0, 13)}`));
  expect(await stateOf(app)).toEqual(before);
  expect((await app.get('/v1/pets', { key })).status).toBe(200);
});

describe('a malformed form', () => {
  const type = 'application/x-www-form-urlencoded';
  const fields = 'name=evil&scopes=pets%3Aread&expires=never';
  const others = '&scopes=pets%3Aread&expires=never';
  const notValid = 'The form is not valid.';
  const tooLarge = 'The body is larger than 16,384 bytes.';
  const notForm = 'The body must be application/x-www-form-urlencoded.';
  const unknown = (name: string) => `"${name}" is not a known field.`;
  /** A form of one byte more than may be sent has one more. */
  const most = 16 * 1024 - fields.length - 3;

  /** What a form contains, and what the page then says. */
  const malformed: [body: string | Buffer, text: string][] = [
    [`${fields}&a=${'a'.repeat(most)}`, unknown('a')],
    [`${fields}&a=${'a'.repeat(most + 1)}`, tooLarge],
    [`${fields}${Array.from(Array(3700), (_, at) => `&${at.toString(36)}`).join('')}`, 'and 3680 more.'],
    [`${fields}&name=other`, 'Name must have 1 to 100 printable characters.'],
    ...['__proto__', '__proto__[admin]', 'toString', ''].map((name): [string, string] => [
      `${fields}&${name}=x`,
      unknown(name),
    ]),
    [`${fields}&%FF=x`, notValid],
    // NUL, what is not UTF-8, a truncated character, an overlong encoding, a lone surrogate, and a code point beyond Unicode.
    ...['%00', '%FF', '%E2%82', '%C0%AF', '%ED%A0%80', '%F4%90%80%80'].map((name): [string, string] => [
      `name=ev${name}il${others}`,
      notValid,
    ]),
    [Buffer.concat([Buffer.from('name=evil'), Buffer.from([0xc3, 0x28]), Buffer.from(others)]), notValid],
    ['&&&===&&&', 'Name is required'],
  ];

  /** Headers with which a form is refused. */
  const unread: [headers: Record<string, string>, text: string][] = [
    [{ 'content-type': `${type}, application/json` }, 'Content-Type'],
    [{ 'content-type': `${type}; charset=iso-8859-1` }, notForm],
    [{ 'content-encoding': 'identity, br' }, 'content coding'],
  ];

  test('gets an error that says why, and writes nothing', async () => {
    const app = await startPages();
    const ada = await app.enterAs('ada');
    const before = await stateOf(app);
    async function expectRefused(body: string | Buffer, headers: Record<string, string>, status: number, text: string) {
      const what = `${body.toString().slice(0, 100)} ${JSON.stringify(headers)}`;
      const page = await ada.post('/account/keys', body, headers);
      expect([page.status, alertOf(page), page.cookies], what).toEqual([status, expect.stringContaining(text), []]);
      expect(await stateOf(app), what).toEqual(before);
    }
    for (const [body, text] of malformed) await expectRefused(body, {}, text === tooLarge ? 413 : 400, text);
    for (const [headers, text] of unread) await expectRefused(fields, headers, 415, text);
    expect(({} as Record<string, unknown>).admin).toBeUndefined();
    expect((await ada.get('/account')).status).toBe(200);
  });

  test('is not one whose content type has a charset, or whose percent signs encode nothing (URL Standard)', async () => {
    const app = await startPages();
    const ada = await app.enterAs('ada');
    const odd = `name=100%+%zz${others}`;
    expect((await ada.post('/account/keys', odd, { 'content-type': `${type};charset=UTF-8` })).status).toBe(200);
    expect(await app.store.accounts.listKeys('ada')).toMatchObject([{ name: '100% %zz' }]);
  });
});
