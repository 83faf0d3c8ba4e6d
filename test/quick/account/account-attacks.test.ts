/** Tests of attacks on the account pages: each must fail, and must change nothing. */
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, test, vi } from 'vitest';
import { newToken } from '../../../src/core/people.ts';
import {
  alertOf,
  curlOf,
  keyOf,
  makeKey,
  type PagesApp,
  password,
  plainText,
  redirect,
  rotateKey,
  startPages,
} from '../../support/account-pages.ts';
import type { FormClient, Page } from '../../support/form-client.ts';
import { converse } from '../../support/raw.ts';
import { textRows } from '../../support/store.ts';

const minuteMs = 60_000;
const next = 'forty herons walk by the canal';
const wrong = 'wrong horse wrong battery';

/** Everything that a form can change. */
async function stateOf({ databaseUrl }: PagesApp): Promise<unknown> {
  const tables = ['account', 'api_key', 'session', 'one_time_link'];
  return Promise.all(tables.map((table) => textRows(databaseUrl, `SELECT * FROM ${table} ORDER BY 1`)));
}

/** Expects that the server is alive and that the session of `client` goes on. */
async function expectAlive(app: PagesApp, client: FormClient): Promise<void> {
  expect((await client.get('/account')).status).toBe(200);
  expect((await app.call('GET', '/v1/pets')).status).toBe(200);
}

describe('a form of another site (CSRF)', () => {
  const headers: [string, (url: string) => Record<string, string | undefined>][] = [
    ['Origin of another site', () => ({ origin: 'https://evil.example.com', 'sec-fetch-site': undefined })],
    ['Origin: null', () => ({ origin: 'null', 'sec-fetch-site': undefined })],
    ['neither Origin nor Sec-Fetch-Site', () => ({ origin: undefined, 'sec-fetch-site': undefined })],
    ['an empty Origin', () => ({ origin: '', 'sec-fetch-site': undefined })],
    ['Origin with another port', () => ({ origin: 'http://127.0.0.1:1', 'sec-fetch-site': undefined })],
    ['Origin without the port', () => ({ origin: 'http://127.0.0.1', 'sec-fetch-site': undefined })],
    ['Origin with https', (url) => ({ origin: url.replace('http', 'https'), 'sec-fetch-site': undefined })],
    ['Origin that begins alike', (url) => ({ origin: `${url}.evil.example.com`, 'sec-fetch-site': undefined })],
    ['two Origins', (url) => ({ origin: `${url}, https://evil.example.com`, 'sec-fetch-site': undefined })],
    ['only a Referer', (url) => ({ origin: undefined, referer: `${url}/account`, 'sec-fetch-site': undefined })],
    ['Sec-Fetch-Site: cross-site', () => ({ 'sec-fetch-site': 'cross-site' })],
    ['Sec-Fetch-Site: same-site', () => ({ 'sec-fetch-site': 'same-site' })],
    ['Sec-Fetch-Site: none', () => ({ 'sec-fetch-site': 'none' })],
    ['an empty Sec-Fetch-Site', () => ({ 'sec-fetch-site': '' })],
    ['Sec-Fetch-Site twice', () => ({ 'sec-fetch-site': 'same-origin, cross-site' })],
    ['Sec-Fetch-Site in capital letters', () => ({ 'sec-fetch-site': 'SAME-ORIGIN' })],
  ];

  test('is refused, whatever its path, and changes nothing', async () => {
    const app = await startPages();
    const account = await app.addPerson('ada');
    const ada = await app.enter(account);
    await makeKey(ada);
    const [invitation, reset] = [await app.addLink('invitation'), await app.addLink('reset', account)];
    const forms: [string, Record<string, string>][] = [
      ['/account/sign-in', { name: 'ada', password }],
      ['/account/sign-up', { name: 'eve', password: next }],
      ['/account/sign-out', {}],
      ['/account/sign-out-everywhere', {}],
      ['/account/password', { current: password, password: next }],
      ['/account/delete', { current: password }],
      ['/account/keys', { name: 'evil', scopes: 'pets:read', expires: 'never' }],
      ['/account/keys/2/rotate', { overlap: 'none' }],
      ['/account/keys/2/revoke', {}],
      [invitation, { name: 'eve', password: next }],
      [reset, { password: next }],
    ];
    const before = await stateOf(app);
    for (const [what, of] of headers) {
      for (const [path, form] of forms) {
        const refused = await ada.post(path, form, of(app.url));
        expect(refused, `${what}: ${path}`).toMatchObject({ status: 403, cookies: [] });
        expect(alertOf(refused)).toBe('This form was not sent from a page of this service.');
      }
      expect(await stateOf(app), what).toEqual(before);
    }
    expect(app.events().map(({ event }) => event)).toEqual(['key_created']);
    await expectAlive(app, ada);
  });

  test('is accepted from the same origin, with either header', async () => {
    const app = await startPages();
    const ada = await app.enterAs('ada');
    for (const headers of [{ 'sec-fetch-site': undefined }, { origin: undefined }, {}])
      expect((await ada.post('/account/keys/99/revoke', {}, headers)).status).toBe(404);
  });

  test('cannot name its origin through Host or X-Forwarded-Host', async () => {
    for (const trustProxy of [undefined, ['127.0.0.1']]) {
      const app = await startPages({ trustProxy });
      const ada = await app.enterAs('ada');
      const evil = {
        origin: 'http://evil.example.com',
        'sec-fetch-site': undefined,
        'x-forwarded-host': 'evil.example.com',
      };
      expect((await ada.post('/account/sign-out-everywhere', {}, evil)).status).toBe(403);
      await expectAlive(app, ada);
    }
    const app = await startPages({ baseUrl: 'http://animals.example.com/v1' });
    const ada = await app.enterAs('ada');
    const rebound = { origin: 'http://evil.example.com', 'sec-fetch-site': undefined, host: 'evil.example.com' };
    expect((await ada.post('/account/sign-out-everywhere', {}, rebound)).status).toBe(403);
  });

  test('of a site that may call the API (CORS_ORIGINS) is refused, and its script can read no page', async () => {
    const origin = 'https://app.example.com';
    const app = await startPages({ corsOrigins: [origin] });
    const ada = await app.enterAs('ada');
    const before = await stateOf(app);
    for (const more of [{ 'sec-fetch-site': undefined }, { 'sec-fetch-site': 'same-site' }]) {
      const form = { name: 'evil', scopes: 'pets:read', expires: 'never' };
      expect((await ada.post('/account/keys', form, { origin, ...more })).status).toBe(403);
    }
    expect(await stateOf(app)).toEqual(before);
    const page = await ada.get('/account', { origin });
    expect(page.headers).not.toHaveProperty('access-control-allow-credentials');
  });
});

describe('a session', () => {
  const open = (app: PagesApp, cookie: string) => app.open({ cookie });

  test('whose token a client chose is never valid, before or after signing in (session fixation)', async () => {
    const app = await startPages();
    await app.addPerson('ada');
    const chosen = newToken().token;
    const victim = app.open();
    victim.jar.set('session', chosen);
    const signed = await victim.post('/account/sign-in', { name: 'ada', password });
    expect(signed).toMatchObject(redirect('/account'));
    expect(signed.cookies[0]).not.toContain(chosen);
    expect(await open(app, `session=${chosen}`).get('/account')).toMatchObject({ status: 303 });
    victim.jar.set('session', chosen);
    await victim.post('/account/sign-up', { name: 'eve', password: next });
    expect(await open(app, `session=${chosen}`).get('/account')).toMatchObject({ status: 303 });
  });

  test('that a client had before is ended by each form that begins one: its thief does not become the victim', async () => {
    const app = await startPages();
    const ada = await app.addPerson('ada');
    const forms: [string, Record<string, string>][] = [
      ['/account/sign-in', { name: 'ada', password }],
      ['/account/sign-up', { name: 'eve', password: next }],
      [await app.addLink('invitation'), { name: 'eva', password: next }],
      [await app.addLink('reset', ada), { password: next }],
    ];
    for (const [at, [path, form]] of forms.entries()) {
      const attacker = await app.enterAs(`thief ${at}`);
      const planted = attacker.jar.get('session') as string;
      const victim = app.open();
      victim.jar.set('session', planted);
      expect(await victim.post(path, form), path).toMatchObject(redirect('/account'));
      expect(victim.jar.get('session')).not.toBe(planted);
      expect(await attacker.get('/account'), path).toMatchObject(redirect('/account/sign-in?done=ended'));
    }
  });

  test('is found only by its exact token in its own cookie', async () => {
    const app = await startPages();
    const token = (await app.enterAs('ada')).jar.get('session') as string;
    const otherThan = (character = '') => (character === 'A' ? 'B' : 'A');
    const cookies = [
      `session=${token.slice(0, -1)}${otherThan(token.at(-1))}`,
      `session=${otherThan(token[0])}${token.slice(1)}`,
      `session=${token.slice(0, -1)}`,
      `session=${token}A`,
      `session=${token}=`,
      `session="${token}"`,
      `session=${token.toUpperCase()}`,
      `session=${token.toLowerCase()}`,
      `session=${token}%00`,
      `session=%00${token}`,
      `session=${token}, x`,
      `session=${Buffer.from(token, 'base64url').toString('hex')}`,
      `session=${Buffer.from(token, 'base64url').toString('base64')}`,
      `Session=${token}`,
      `__Host-session=${token}`,
      `__Secure-session=${token}`,
      `sessionx=${token}`,
      `session[]=${token}`,
      `session=${'a'.repeat(8000)}`,
      `session=${token}${'a'.repeat(8000)}`,
      'session=',
      'session',
      'session=%',
      'session=%E0%A4%A',
      'session=__proto__',
      '__proto__=x; constructor=y',
      'session="',
      `session=j:${token}`,
      ';;;===;;',
      // Two cookies of this name: one path or domain set the other. The first counts, never both.
      `session=${newToken().token}; session=${token}`,
    ];
    for (const cookie of cookies)
      expect((await open(app, cookie).get('/account')).status, cookie.slice(0, 60)).toBe(303);
    for (const cookie of [
      `session=${token}`,
      `a=b; session=${token}; c=d`,
      `session=${token}; session=${newToken().token}`,
    ])
      expect((await open(app, cookie).get('/account')).status, cookie).toBe(200);
    expect((await open(app, `session=${'a'.repeat(20_000)}`).get('/account')).status).toBe(431);
    expect(app.log()).not.toContain('"level":50');
  });

  test('is not found by the hash that the store has', async () => {
    const app = await startPages();
    await app.enterAs('ada');
    const [{ hash } = {}] = await textRows(app.databaseUrl, 'SELECT hash FROM session');
    const bytes = Buffer.from(String(hash).replace(/^\\x/, ''), 'latin1');
    for (const token of [bytes.toString('base64url'), bytes.toString('hex'), String(hash)])
      expect((await open(app, `session=${encodeURIComponent(token)}`).get('/account')).status).toBe(303);
  });
});

/** The tags of a page and the names of their attributes, and the text that is outside of tags. */
function structureOf({ text }: Page): { tags: string[]; rest: string } {
  const tag = /<!?\/?[a-z][a-z0-9]*(?:\s+[a-z-]+(?:="[^"<>]*")?)*\s*>/gi;
  const tags = [...text.matchAll(tag)].map(([found]) => found.replace(/="[^"]*"/g, '=').replace(/\s+/g, ' '));
  return { tags, rest: text.replace(tag, '') };
}

describe('a thief who knows the old password', () => {
  /** Lets the owner replace the password by a reset while `attack` is under way: after the store has been asked for the old hash. */
  async function resetDuring(app: PagesApp, attack: () => Promise<Page>): Promise<Page> {
    const { people } = app.store;
    const { findPerson } = people;
    const [account] = (await app.store.accounts.listAccounts()).filter(({ name }) => name === 'ada');
    people.findPerson = async (name) => {
      people.findPerson = findPerson;
      const found = await findPerson(name);
      const link = await app.addLink('reset', account);
      expect(await app.open().post(link, { password: next })).toMatchObject(redirect('/account'));
      return found;
    };
    return attack();
  }

  test('gets no session if the owner resets it while he signs in', async () => {
    const app = await startPages();
    await app.addPerson('ada');
    const thief = app.open();
    await resetDuring(app, () => thief.post('/account/sign-in', { name: 'ada', password }));
    expect((await thief.get('/account')).status).toBe(303);
  });

  test('cannot change it if the owner resets it meanwhile', async () => {
    const app = await startPages();
    const thief = await app.enterAs('ada');
    const form = { current: password, password: 'the thief has a password of his own' };
    await resetDuring(app, () => thief.post('/account/password', form));
    expect((await thief.get('/account')).status).toBe(303);
    expect((await app.open().post('/account/sign-in', { name: 'ada', password: form.password })).status).toBe(403);
    expect((await app.open().post('/account/sign-in', { name: 'ada', password: next })).status).toBe(303);
  });

  test('cannot delete the account if the owner resets it meanwhile', async () => {
    const app = await startPages();
    const thief = await app.enterAs('ada');
    await resetDuring(app, () => thief.post('/account/delete', { current: password }));
    expect((await app.open().post('/account/sign-in', { name: 'ada', password: next })).status).toBe(303);
  });
});

describe('markup in a name (XSS)', () => {
  const names = [
    '<script>alert(1)</script>',
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    '" autofocus onfocus="alert(1)',
    '</title><svg/onload=alert(1)>',
    '</textarea></select></form><form action=//evil.example.com>',
    '<!-- ',
    '--><script>alert(1)</script>',
    '&lt;b&gt;&#60;i&#62;&quot;',
    '<%= process.exit() %>',
    '{{constructor.constructor("alert(1)")()}}',
    // biome-ignore lint/suspicious/noTemplateCurlyInString: it is text that a template must not evaluate.
    '`${alert(1)}`',
    'javascript:alert(1)',
    '\\x3cscript\\x3e',
    '<ſcript>＜script＞',
  ];

  /** Each page that shows the name of the account or of a key. */
  async function pagesWith(app: PagesApp, name: string): Promise<Page[]> {
    const account = await app.addPerson(name);
    const ada = await app.enter(account);
    const made = await makeKey(ada, { name });
    const id = (await app.store.accounts.listKeys(name))[0]?.id as number;
    await app.store.accounts.recordUses([{ id, lastUsedAt: new Date('2027-01-01'), deprecatedCalls: 3 }]);
    const keys = await ada.get('/account');
    const usage = await ada.get(`/account/keys/${id}`);
    const rotated = await rotateKey(ada, id, '1h');
    await ada.post(`/account/keys/${id + 1}/revoke`);
    return [
      made,
      keys,
      usage,
      rotated,
      await ada.get('/account?done=revoked'),
      await ada.get('/account/settings'),
      await ada.post('/account/password', { current: wrong, password: next }),
      await ada.post('/account/keys', { name, scopes: [], expires: 'never' }),
      await app.open().get(await app.addLink('reset', account)),
      await app.open().post('/account/sign-in', { name, password: wrong }),
      await app.open().post('/account/sign-up', { name, password: 'short' }),
      await app.open().post(await app.addLink('invitation'), { name, password: 'short' }),
    ];
  }

  test('is shown as text: it adds no tag and no attribute to any page', async () => {
    const harmless = (await pagesWith(await startPages(), 'website')).map(structureOf);
    expect(harmless.length).toBe(12);
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

  test('of a field is shown as text in the error that names it', async () => {
    const app = await startPages();
    const field = '<img src=x onerror=alert(1)>';
    const page = await app.open().post('/account/sign-in', { name: 'ada', password, [field]: field });
    expect(page.status).toBe(400);
    expect(alertOf(page)).toBe(`"${field}" is not a known field.`);
    expect(page.text).not.toContain('<img src=x');
  });

  test('of a choice that the form does not have is shown nowhere', async () => {
    const app = await startPages();
    const ada = await app.enterAs('ada');
    const text = '"><img src=x onerror=alert(1)>';
    const good = { name: 'website', scopes: 'pets:read', expires: 'never' };
    const plain = structureOf(await makeKey(ada, { ...good, name: '' })).tags.filter(
      (tag) => !/^<(input|option)/.test(tag),
    );
    for (const form of [
      { scopes: text },
      { scopes: [text, 'pets:read'] },
      { expires: text },
      { expires: [text, text] },
    ]) {
      const page = await makeKey(ada, { ...good, ...form });
      expect(page.status).toBe(400);
      const { tags, rest } = structureOf(page);
      expect(tags.filter((tag) => !/^<(input|option)/.test(tag))).toHaveLength(plain.length);
      expect(rest).not.toMatch(/[<>]/);
      expect(page.text).not.toContain('onerror=alert');
    }
  });

  test('of a path or a query is shown nowhere', async () => {
    const app = await startPages();
    const text = '%3Cscript%3Ealert(1)%3C/script%3E';
    for (const path of [
      `sign-in?done=${text}`,
      `sign-in?name=${text}`,
      `links/${text}`,
      text,
      `keys/${text}/revoke`,
      `sign-up?error=${text}`,
    ]) {
      const page = await app.open().get(`/account/${path}`);
      expect(page.text, path).not.toMatch(/alert\(1\)/);
    }
  });
});

describe('a redirect', () => {
  const evil = 'evil.example.com';
  const asked: [string, Record<string, string>][] = [
    [`/account?next=https://${evil}`, {}],
    [`/account?next=//${evil}&return_to=%2F%2F${evil}`, {}],
    [`/account/sign-out?url=https://${evil}`, {}],
    [`/account/keys?done=%0d%0aLocation:%20https://${evil}`, {}],
    ['/account/settings', { host: evil }],
    ['/account', { 'x-forwarded-host': evil, 'x-forwarded-prefix': `//${evil}`, forwarded: `host=${evil}` }],
    ['/account', { 'x-original-url': `//${evil}`, 'x-rewrite-url': `//${evil}`, referer: `https://${evil}` }],
  ];

  test('stays on this server, whatever the request names (open redirect)', async () => {
    for (const trustProxy of [undefined, ['127.0.0.1']]) {
      const client = (await startPages({ trustProxy })).open();
      for (const [path, headers] of asked) {
        const { status, headers: answered } = await client.get(path, headers);
        expect([status, answered.location], path).toEqual([303, expect.stringMatching(/^\/account(\/sign-in)?$/)]);
      }
    }
  });

  test('after signing in or out leads only to a page of the account', async () => {
    const app = await startPages();
    await app.addPerson('ada');
    const client = app.open();
    const query = '?next=https://evil.example.com&done=//evil.example.com';
    expect(await client.post(`/account/sign-in${query}`, { name: 'ada', password })).toMatchObject(
      redirect('/account'),
    );
    expect(await client.get(`/account/sign-in${query}`)).toMatchObject(redirect('/account'));
    const out = await client.post(`/account/sign-out${query}`);
    expect(out).toMatchObject(redirect('/account/sign-in?done=signed-out'));
    const asked = await client.post('/account/sign-in', { name: 'ada', password, next: 'https://evil.example.com' });
    expect([asked.status, alertOf(asked)]).toEqual([400, '"next" is not a known field.']);
  });

  test('is not the response to a path that names another host', async () => {
    const app = await startPages();
    for (const path of [
      `//${evil}/account`,
      `/account//${evil}`,
      `/account/..//${evil}`,
      `/%2F%2F${evil}`,
      `/\\${evil}`,
      `/account/%0d%0aLocation:%20//${evil}`,
    ]) {
      const head = `GET ${path} HTTP/1.1\r\nHost: ${evil}\r\nAccept: text/html\r\n\r\n`;
      const [{ status, headers, text } = { status: 0, headers: {}, text: '' }] = await converse(app.port, [head]);
      expect([400, 404], path).toContain(status);
      expect(JSON.stringify(headers) + text, path).not.toContain(evil);
    }
  });
});

describe('a Host header', () => {
  const hosts = [
    'a$(id)',
    'a;id',
    'a&id',
    'a|id',
    "a'id",
    'a`id`',
    '!id',
    'a(b)',
    'a*b',
    '~root',
    'a%24b',
    'a,b',
    'a=b',
    'a_b',
    '',
  ];

  test('with characters that a shell treats specially does not come into the curl line', async () => {
    for (const trustProxy of [undefined, ['127.0.0.1']]) {
      const app = await startPages({ trustProxy });
      const ada = await app.enterAs('ada');
      const lines: string[] = [];
      for (const host of [...hosts, 'evil.example.com:1', '[::1]:3000']) {
        for (const headers of [{ host }, { 'x-forwarded-host': host }]) {
          const page = await makeKeyWith(ada, headers);
          if (page.status === 400 && 'host' in headers) continue;
          expect(page.status, JSON.stringify(headers)).toBe(200);
          const rest = curlOf(page).replace(keyOf(page), 'KEY');
          lines.push(rest);
          await ada.post(`/account/keys/${(await app.store.accounts.listKeys('ada')).at(-1)?.id}/revoke`);
        }
      }
      expect(lines.length).toBeGreaterThan(20);
      // Brackets are of IPv6 addresses.
      for (const line of lines)
        expect(line).toMatch(/^curl -H 'Authorization: Bearer KEY' '?(http:\/\/[A-Za-z0-9._:[\]-]+)?\/v1\/pets'?$/);
    }
  });

  test('does not come into the curl line or a link if BASE_URL is set', async () => {
    const app = await startPages({ baseUrl: 'http://animals.example.com/v1', trustProxy: ['127.0.0.1'] });
    const ada = await app.enterAs('ada');
    const headers = { host: 'evil.example.com', 'x-forwarded-host': 'evil.example.com' };
    const page = await makeKeyWith(ada, headers);
    expect(page.status).toBe(200);
    expect(page.text).not.toContain('evil.example.com');
    expect(curlOf(page)).toContain('http://animals.example.com/v1/pets');
  });

  const makeKeyWith = (client: FormClient, headers: Record<string, string>) =>
    makeKey(client, { scopes: 'pets:read' }, headers);
});

const tooMany = /^Too many failed attempts in 15 minutes: try again in (\d+ minutes|a minute)\.$/;

function expectLimited(page: Page, sentence = tooMany, mostSeconds = 900): void {
  expect(page).toMatchObject({ status: 429, cookies: [] });
  expect(alertOf(page)).toMatch(sentence);
  const seconds = Number(page.headers['retry-after']);
  expect(seconds).toBeGreaterThan(0);
  expect(seconds).toBeLessThanOrEqual(mostSeconds);
}

describe('brute force', () => {
  const start = new Date('2027-03-01T10:00:00Z');
  const later = (ms: number) => new Date(start.getTime() + ms);

  /** A server behind a proxy, at a fixed time, with accounts a1 to a`count`. */
  async function startBehindProxy(count: number): Promise<PagesApp> {
    const app = await startPages({ trustProxy: ['127.0.0.1'] });
    app.setTime(start);
    for (let number = 1; number <= count; number++) await app.addPerson(`a${number}`);
    return app;
  }

  const signIn = (app: PagesApp, address: string, name: string, text: string) =>
    app.open({ 'x-forwarded-for': address }).post('/account/sign-in', { name, password: text });

  test('of an account from many addresses ends after 10 failures, for 15 minutes, right password included', async () => {
    const app = await startBehindProxy(2);
    const [ada] = (await app.store.accounts.listAccounts()).filter(({ name }) => name === 'a1');
    const before = await app.enter(ada as { id: number } & typeof ada & object);
    for (let guess = 1; guess <= 10; guess++) {
      app.setTime(later(guess * 1000));
      expect((await signIn(app, `192.0.2.${guess}`, 'a1', wrong)).status, `guess ${guess}`).toBe(403);
    }
    for (const address of ['192.0.2.1', '192.0.2.99', '2001:db8::1']) {
      expectLimited(await signIn(app, address, 'a1', wrong));
      expectLimited(await signIn(app, address, 'a1', password));
    }
    // Others are not affected, and neither is a session that exists.
    expect((await signIn(app, '192.0.2.99', 'a2', password)).status).toBe(303);
    expect((await before.get('/account')).status).toBe(200);
    app.setTime(later(15 * minuteMs + 999));
    expectLimited(await signIn(app, '192.0.2.99', 'a1', password), tooMany, 1);
    app.setTime(later(15 * minuteMs + 1000));
    expect((await signIn(app, '192.0.2.99', 'a1', password)).status).toBe(303);
  });

  const networks: [string, (guess: number) => string, string][] = [
    ['an IPv4 address', () => '192.0.2.7', '192.0.2.8'],
    ['an IPv4 address with a port', (guess) => `192.0.3.7:${5000 + guess}`, '192.0.3.8:5001'],
    ['an IPv4 address, also as IPv6', (guess) => `${guess % 2 ? '' : '::ffff:'}192.0.4.7`, '::ffff:192.0.4.8'],
    ['an IPv6 address with a port', (guess) => `[2001:db8:1:2::1]:${5000 + guess}`, '[2001:db8:1:3::1]:5001'],
    ['the addresses of one /64', (guess) => `2001:db8:2:2:${guess.toString(16)}::${guess}`, '2001:db8:2:3::1'],
    [
      'one IPv6 address, however it is written',
      (guess) =>
        ['2001:db8:3:2::1', '2001:db8:3:2:0:0:0:1', '2001:db8:3:2::', '2001:db8:3:2:ffff::'][guess % 4] as string,
      '2001:db8:3::1',
    ],
  ];

  test('of many accounts from one network ends after 10 failures', async () => {
    const app = await startBehindProxy(2);
    for (const [what, addressOf, other] of networks) {
      for (let guess = 1; guess <= 10; guess++)
        expect((await signIn(app, addressOf(guess), `${what} ${guess}`, wrong)).status, `${what} ${guess}`).toBe(403);
      expectLimited(await signIn(app, addressOf(11), 'a1', wrong));
      expectLimited(await signIn(app, addressOf(12), 'a2', password));
      expect((await signIn(app, other, 'a2', password)).status, what).toBe(303);
    }
  });

  test('cannot choose its address with X-Forwarded-For, unless a trusted proxy sends it', async () => {
    const app = await startPages();
    await app.addPerson('a1');
    for (let guess = 1; guess <= 12; guess++) await app.addPerson(`b${guess}`);
    for (let guess = 1; guess <= 10; guess++)
      expect((await signIn(app, `192.0.2.${guess}`, `b${guess}`, wrong)).status).toBe(403);
    expectLimited(await signIn(app, '192.0.2.11', 'b11', password));
    const proxied = await startBehindProxy(12);
    // The client's own entry comes before that of the proxy.
    for (let guess = 1; guess <= 10; guess++)
      expect((await signIn(proxied, `198.51.100.${guess}, 192.0.2.7`, `a${guess}`, wrong)).status).toBe(403);
    expectLimited(await signIn(proxied, '198.51.100.99, 192.0.2.7', 'a11', password));
  });

  test('through the forms that ask for the current password counts, too', async () => {
    const app = await startBehindProxy(1);
    const [account] = (await app.store.accounts.listAccounts()).filter(({ name }) => name === 'a1');
    const thief = await app.enter(account as NonNullable<typeof account>, { 'x-forwarded-for': '192.0.2.7' });
    for (let guess = 1; guess <= 10; guess++) {
      const [path, more] = guess % 2 ? ['password', { password: next }] : ['delete', {}];
      const refused = await thief.post(`/account/${path}`, { current: wrong, ...more });
      expect([refused.status, alertOf(refused)]).toEqual([403, 'The current password is wrong.']);
    }
    expectLimited(await thief.post('/account/password', { current: password, password: next }));
    expectLimited(await thief.post('/account/delete', { current: password }));
    expectLimited(await signIn(app, '192.0.2.8', 'a1', password));
    expect((await thief.get('/account')).status).toBe(200);
    expect((await app.store.people.findPerson('a1'))?.account.id).toBe(account?.id);
  });

  describe('while attempts are being checked', () => {
    /** Holds the checks of each name in `held` until `release`. */
    function holdChecks({ store: { people } }: PagesApp, held: string[]): () => void {
      const { findPerson } = people;
      const { promise, resolve } = Promise.withResolvers<void>();
      people.findPerson = async (name) => {
        if (held.includes(name)) await promise;
        return findPerson(name);
      };
      return resolve;
    }

    /** Attempts of a1 to a`count` from one address: two are being checked, and held; the others wait for their turn. */
    async function beginAttempts(app: PagesApp, count: number, text: string) {
      const names = Array.from({ length: count }, (_, at) => `a${at + 1}`);
      const release = holdChecks(app, names);
      const pages = names.map((name) => signIn(app, '192.0.2.7', name, text));
      const taken = async () => {
        const gauge = await app.metrics.registry.getSingleMetric('animal_store_held')?.get();
        return gauge?.values.find(({ labels }) => labels.what === 'work')?.value;
      };
      await vi.waitFor(async () => expect(await taken()).toBe(count), { timeout: 10_000 });
      return async () => {
        release();
        return (await Promise.all(pages)).map(({ status }) => status);
      };
    }

    function expectBusy(page: Page): void {
      expect(page).toMatchObject({ status: 503, cookies: [], headers: { 'retry-after': '1' } });
      expect(alertOf(page)).toBe('Other attempts are being checked: try again in a second.');
    }

    test('one more is refused with 503 and not recorded; when they were right, it may come', async () => {
      const app = await startBehindProxy(11);
      await signIn(app, '192.0.2.9', 'a11', wrong);
      app.setTime(later(minuteMs));
      const end = await beginAttempts(app, 10, password);
      expectBusy(await signIn(app, '192.0.2.7', 'a11', wrong));
      expectBusy(await signIn(app, '192.0.2.7', 'a11', password));
      expect(await end()).toEqual(Array(10).fill(303));
      expect((await signIn(app, '192.0.2.8', 'a11', password)).status).toBe(303);
      expect((await signIn(app, '192.0.2.7', 'a11', password)).status).toBe(303);
      expect(await app.counts()).toEqual({ sign_in_refused: 1, signed_in: 12 });
    });
  });

  test('of sign-up forms: those that break a rule do not count, those that ask whether a name is taken do', async () => {
    const app = await startBehindProxy(1);
    const client = app.open({ 'x-forwarded-for': '192.0.2.7' });
    const signUp = async (name: string, text = password) =>
      (await client.post('/account/sign-up', { name, password: text })).status;
    for (let form = 0; form < 51; form++) expect(await signUp('n', 'short')).toBe(400);
    for (let form = 0; form < 51; form++) expect(await signUp('n', 'mynameisjonathan')).toBe(400);
    for (let form = 0; form < 51; form++) expect(await signUp('', password)).toBe(400);
    for (let form = 0; form < 50; form++) expect(await signUp('a1')).toBe(400);
    const limited = await client.post('/account/sign-up', { name: 'n1', password });
    expectLimited(limited, /^Too many new accounts from this address: try again in 24 hours\.$/, 86_400);
    expect(await app.store.people.findPerson('n1')).toBeUndefined();
    expect(await signUp('n1', 'short')).toBe(400);
  }, 60_000);

  test('of links finds none, and a valid link stays valid', async () => {
    const app = await startPages();
    const link = await app.addLink('invitation');
    const client = app.open();
    const near = (at: number) => `${link.slice('/account/links/'.length, -2)}${String(at).padStart(2, '-')}`;
    for (let at = 0; at < 40; at++)
      expect((await client.get(`/account/links/${at % 4 ? near(at) : newToken().token}`)).status).toBe(404);
    expect((await client.get(link)).status).toBe(200);
  });
});

test('a wrong password and an unknown name get the same response, but for the name that was typed', async () => {
  const app = await startPages();
  await app.addPerson('ada-1');
  const answers = await Promise.all(
    ['ada-1', 'eve-1', 'tests'].map((name) => app.open().post('/account/sign-in', { name, password: wrong })),
  );
  const [known, ...others] = answers.map(({ status, headers: { date, 'x-request-id': id, ...headers }, text }, at) => ({
    status,
    headers,
    text: text.replaceAll(['ada-1', 'eve-1', 'tests'][at] as string, 'NAME'),
  }));
  expect([known?.status, known?.text.includes(wrong)]).toEqual([403, false]);
  for (const other of others) expect(other).toEqual(known);
});

describe("someone else's key", () => {
  test('cannot be rotated or revoked, whatever the id in the form; the response does not tell whether it exists', async () => {
    const app = await startPages();
    const [ada, eve] = [await app.enterAs('ada'), await app.enterAs('eve')];
    const key = keyOf(await makeKey(ada));
    await makeKey(eve);
    const [{ id } = { id: 0 }] = await app.store.accounts.listKeys('ada');
    const before = await stateOf(app);
    const written = [
      0,
      -1,
      `0${id}`,
      `+${id}`,
      `%20${id}`,
      `${id}.0`,
      `${id}e0`,
      '1e3',
      '0x2',
      `${id},3`,
      `${id}%00`,
      '２',
    ];
    const large = ['9223372036854775807', '18446744073709551618', '9'.repeat(400)];
    const ids = [id, 1, 999, ...written, ...large, 'website', '__proto__', `..%2f${id}`, "2' OR '1'='1"];
    const texts = new Set<string>();
    for (const given of ids) {
      for (const [action, form] of [
        ['rotate', { overlap: 'none' }],
        ['revoke', {}],
      ] as const) {
        const path = `/account/keys/${encodeURI(String(given)).replaceAll('%25', '%')}/${action}`;
        const page = await eve.post(path, form);
        expect(page.status, `${given} ${action}`).toBe(404);
        texts.add(String(alertOf(page)));
      }
    }
    expect(texts).toEqual(new Set(['You have no such key.']));
    expect(await stateOf(app)).toEqual(before);
    expect((await app.call('GET', '/v1/pets', { key })).status).toBe(200);
    // An id in the form counts no more than the path.
    const smuggled = await eve.post('/account/keys/3/revoke', { id: String(id), account: 'ada' });
    expect(smuggled.status).toBe(400);
    expect(await stateOf(app)).toEqual(before);
  });

  test('is on no page of another account', async () => {
    const app = await startPages();
    const [ada, eve] = [await app.enterAs('ada'), await app.enterAs('eve')];
    const key = keyOf(await makeKey(ada, { name: 'canary-key' }));
    const page = await eve.get('/account?account=ada&id=2');
    expect(plainText(page)).not.toMatch(new RegExp(`canary-key|${key.slice(0, 13)}`));
    const forged = await eve.post('/account/keys', {
      name: 'x',
      scopes: 'pets:read',
      expires: 'never',
      account: 'ada',
    });
    expect(forged.status).toBe(400);
    expect(await app.store.accounts.listKeys('ada')).toHaveLength(1);
  });
});

describe('a malformed form', () => {
  const type = 'application/x-www-form-urlencoded';
  const fields = 'name=evil&scopes=pets%3Aread&expires=never';
  const notValid = 'The form is not valid.';
  const tooLarge = 'The body is larger than 16,384 bytes.';
  const notForm = 'The body must be application/x-www-form-urlencoded.';

  const unknown = (name: string) => `"${name}" is not a known field.`;
  const others = '&scopes=pets%3Aread&expires=never';

  /** What a form contains, and what the page then says. */
  const malformed: [string | Buffer, number, string][] = [
    [`${fields}&name=${'a'.repeat(16 * 1024 - fields.length - 5)}`, 413, tooLarge],
    [`${fields}&a=${'a'.repeat(16 * 1024 - fields.length - 3)}`, 400, unknown('a')],
    ['a=1&'.repeat(100_000), 413, tooLarge],
    [`${fields}${'&a'.repeat(8000)}`, 400, unknown('a')],
    [`${fields}${Array.from({ length: 3700 }, (_, at) => `&${at.toString(36)}`).join('')}`, 400, 'and 3680 more.'],
    [`${fields}&name=other`, 400, 'Name must have 1 to 100 printable characters.'],
    [`${fields}&__proto__=x`, 400, unknown('__proto__')],
    [`${fields}&__proto__[admin]=1`, 400, unknown('__proto__[admin]')],
    [`${fields}&constructor=x&constructor=y`, 400, unknown('constructor')],
    [
      'name=evil&expires=never&toString=x',
      400,
      `Scopes must be at least one of pets:read, pets:write. ${unknown('toString')}`,
    ],
    [`${fields}&=x`, 400, unknown('')],
    [`${fields}&a%00=x`, 400, ' is not a known field.'],
    [`${fields}&%FF=x`, 400, notValid],
    // NUL, what is not UTF-8, a truncated character, an overlong encoding, a lone surrogate, and a code point beyond Unicode.
    ...['%00', '%FF', '%E2%82', '%C0%AF', '%ED%A0%80', '%F4%90%80%80'].map((name): [string, number, string] => [
      `name=ev${name}il${others}`,
      400,
      notValid,
    ]),
    [`name=evil%E2%82`, 400, notValid],
    [Buffer.concat([Buffer.from('name=evil'), Buffer.from([0xc3, 0x28]), Buffer.from(others)]), 400, notValid],
    ['', 400, 'Name is required'],
    ['&&&===&&&', 400, 'Name is required'],
  ];

  /** Headers with which a form is refused. */
  const headersOfOthers: [Record<string, string>, string][] = [
    ...['application/json', 'text/plain', '', 'multipart/form-data; boundary=x', `${type}, application/json`].map(
      (given): [Record<string, string>, string] => [{ 'content-type': given }, notForm],
    ),
    [{ 'content-type': `${type}; charset=utf-16` }, notForm],
    [{ 'content-type': `${type}; charset=iso-8859-1` }, notForm],
    [{ 'content-encoding': 'gzip' }, 'content coding'],
    [{ 'content-encoding': 'identity, br' }, 'content coding'],
  ];

  test('gets an error that says why, and writes nothing', async () => {
    const app = await startPages();
    const ada = await app.enterAs('ada');
    const before = await stateOf(app);
    async function expectRefused(
      body: string | Buffer,
      headers: Record<string, string>,
      status: number,
      sentence: string,
    ) {
      const what = `${body.toString().slice(0, 100)} ${JSON.stringify(headers)}`;
      const begun = performance.now();
      const page = await ada.post('/account/keys', body, headers);
      expect([page.status, alertOf(page), page.cookies], what).toEqual([status, expect.stringContaining(sentence), []]);
      expect(performance.now() - begun, what).toBeLessThan(5000);
      expect(await stateOf(app), what).toEqual(before);
    }
    for (const [body, status, sentence] of malformed) await expectRefused(body, {}, status, sentence);
    for (const [headers, sentence] of headersOfOthers) await expectRefused(fields, headers, 415, sentence);
    expect(({} as Record<string, unknown>).admin).toBeUndefined();
    await expectAlive(app, ada);
  });

  test('is not one whose content type has a charset, or whose percent signs encode nothing (URL Standard)', async () => {
    const app = await startPages();
    const ada = await app.enterAs('ada');
    const odd = 'name=100%+%zz&scopes=pets%3Aread&expires=never';
    expect((await ada.post('/account/keys', fields, { 'content-type': `${type};charset=UTF-8` })).status).toBe(200);
    expect((await ada.post('/account/keys', odd)).status).toBe(200);
    expect((await app.store.accounts.listKeys('ada')).map(({ name }) => name)).toEqual(['evil', '100% %zz']);
  });

  test('with a password twice, an unknown field or none is refused by each form', async () => {
    const app = await startPages();
    const account = await app.addPerson('ada');
    const ada = await app.enter(account);
    const forms: [string, FormClient, string][] = [
      ['/account/sign-in', app.open(), 'password'],
      ['/account/sign-up', app.open(), 'password'],
      ['/account/password', ada, 'password'],
      ['/account/delete', ada, 'current'],
      [await app.addLink('reset', account), app.open(), 'password'],
    ];
    const before = await stateOf(app);
    for (const [path, client, secret] of forms) {
      const label = secret === 'current' ? 'Current' : 'Password';
      const right = { name: 'ada', password: next, ...(/password|delete/.test(path) && { current: password }) };
      const doubled = await client.post(path, { ...right, [secret]: [password, password] });
      expect([doubled.status, alertOf(doubled)]).toEqual([400, expect.stringContaining(`${label} must be given once`)]);
      for (const form of [{}, { ...right, admin: 'true' }, { ...right, 'name[]': 'ada' }, { [`${secret}[$ne]`]: 'x' }])
        expect((await client.post(path, form)).status, path).toBe(400);
    }
    expect(await stateOf(app)).toEqual(before);
  });

  const headersOf = (app: PagesApp, client: FormClient) =>
    `POST /account/keys HTTP/1.1\r\nHost: 127.0.0.1:${app.port}\r\nAccept: text/html\r\nContent-Type: ${type}\r\n` +
    `Sec-Fetch-Site: same-origin\r\nCookie: session=${client.jar.get('session')}\r\n`;

  test.each([
    ['Content-Length', (part: string) => [`Content-Length: ${10 * 2 ** 20}\r\n\r\n`, part]],
    ['chunks', (part: string) => ['Transfer-Encoding: chunked\r\n\r\n', `${part.length.toString(16)}\r\n${part}\r\n`]],
  ])('of 10 MB with %s gets 413 before it is read', async (_how, framing) => {
    const app = await startPages();
    const ada = await app.enterAs('ada');
    const before = await stateOf(app);
    const [line = '', part = ''] = framing('a'.repeat(20_000));
    const answers = await converse(app.port, [headersOf(app, ada) + line, part]);
    expect(answers).toEqual([
      expect.objectContaining({ status: 413, text: expect.stringContaining('The body is larger than 16,384 bytes.') }),
    ]);
    expect(await stateOf(app)).toEqual(before);
    await expectAlive(app, ada);
  });

  test('whose length and content disagree, or which never arrives whole, writes nothing', async () => {
    const app = await startPages();
    const ada = await app.enterAs('ada');
    const before = await stateOf(app);
    const head = headersOf(app, ada);
    const both = await converse(app.port, [`${head}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n${fields}`]);
    expect(both.map(({ status }) => status)).toEqual([400]);
    const twice = await converse(app.port, [`${head}Content-Length: 5\r\nContent-Length: 6\r\n\r\n${fields}`]);
    expect(twice.map(({ status }) => status)).toEqual([400]);
    const short = `${head}Content-Length: ${fields.length + 10}\r\n\r\n${fields}`;
    await converse(app.port, [short], { halfClose: true }).catch(() => undefined);
    await sleep(50);
    expect(await stateOf(app)).toEqual(before);
    await expectAlive(app, ada);
  });
});
