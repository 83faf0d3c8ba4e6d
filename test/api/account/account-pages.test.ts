/** Tests of the account pages over HTTP: what each page and each form does. */
import { describe, expect, test } from 'vitest';
import { ApiError } from '../../../src/core/errors.ts';
import {
  alertOf,
  curlOf,
  faultAt,
  keyOf,
  makeKey,
  next,
  noticeOf,
  type PagesApp,
  password,
  redirect,
  rotateKey,
  startPages,
  startWithAda,
  stateOf,
  toKeys,
} from '../../support/account-pages.ts';

/** The paths of pages, and those of forms with the page to which GET leads. */
const pagePaths = ['/account', '/account/settings', '/account/sign-in', '/account/sign-up', '/account/links/x'];
const formPaths = {
  '/account/keys': '/account',
  '/account/keys/2/rotate': '/account',
  '/account/keys/2/revoke': '/account',
  '/account/sign-out': '/account',
  '/account/password': '/account/settings',
  '/account/delete': '/account/settings',
  '/account/sign-out-everywhere': '/account/settings',
};
const paths = [...pagePaths, ...Object.keys(formPaths)];

// Which status each method gets is in system/load/matrix.test.ts.
describe('paths', () => {
  test('GET of a form leads to its page, or without a session to the sign-in page, and changes nothing', async () => {
    const { app, here } = await startWithAda();
    await makeKey(here);
    const before = await stateOf(app);
    const late = app.open({ cookie: `${app.open().sessionName}=${'a'.repeat(43)}` });
    const toSignIn = (path: string, done = '') => {
      // Back to the page.
      const query = [path.replace(/^\/account/, path === '/account' ? '' : 'to='), done].filter(Boolean).join('&');
      return { ...redirect(`/account/sign-in${query && `?${query}`}`), cookies: [], text: '' };
    };
    const form = { name: 'website', scopes: 'pets:read', expires: 'never' };
    for (const [path, page] of Object.entries(formPaths)) {
      expect(await here.get(path), path).toMatchObject({ ...redirect(page), cookies: [] });
      if (path === '/account/sign-out') continue;
      expect(await app.open().post(path, form), path).toMatchObject(toSignIn(path));
      for (const needed of [path, page]) {
        expect(await app.open().get(needed), needed).toMatchObject(toSignIn(needed));
        expect(await late.get(needed), needed).toMatchObject(toSignIn(needed, 'done=ended'));
      }
    }
    expect(await stateOf(app)).toEqual(before);
  });

  test('nothing is served if SIGN_UP is none', async () => {
    const client = (await startPages({ signUp: 'none' })).open();
    for (const path of paths) expect((await client.get(path)).status, path).toBe(404);
    expect((await client.post('/account/sign-up', { name: 'ada', password })).status).toBe(404);
  });

  test('notices come only from a fixed set of each page', async () => {
    const app = await startPages();
    const ada = await app.enterAs('ada');
    for (const done of ['toString', '__proto__', '', 'revoked&done=revoked', 'password']) {
      const page = await ada.get(`/account?done=${done}`);
      expect([page.status, noticeOf(page)], done).toEqual([200, undefined]);
    }
  });

  test('a failure of the store shows a page with 503 and Retry-After, and another error one with 500', async () => {
    const app = await startPages();
    const ada = await app.enterAs('ada');
    const unavailable = () => Promise.reject(new ApiError('service_unavailable'));
    Object.assign(app.store.accounts, { listOwnKeys: unavailable });
    Object.assign(app.store.people, { findPerson: unavailable });
    for (const page of [await ada.get('/account'), await app.signIn('ada')]) {
      expect(page).toMatchObject({ status: 503, headers: { 'retry-after': '1' } });
      expect(alertOf(page)).toMatch(/cannot answer right now: try again in a few seconds/);
    }
    expect(app.events()).toEqual([]);
    app.store.accounts.listOwnKeys = () => Promise.reject(new Error('a secret of the store'));
    const broken = await ada.get('/account');
    expect([broken.status, broken.text.includes('a secret')]).toEqual([500, false]);
    expect(alertOf(broken)).toContain(`by this number: ${broken.headers['x-request-id']}`);
    expect(app.logged('a secret of the store')).toMatchObject([{ level: 50, msg: 'internal_error' }]);
    // The form's page cannot be shown again either.
    expect((await makeKey(ada, { name: '' })).status).toBe(400);
  });
});

describe('a refused form', () => {
  const wrongName = 'Name must have 1 to 100 printable characters.';
  const wrongAccount = 'This page was open for the account ben, but you are signed in as ada.';
  const short = 'The password must have 15 to 256 characters; it has 5.';
  const common = 'The password is too common: choose one that nobody else would think of.';
  const likeName = 'The password must not be the name of the account.';
  const taken = 'This name is taken: choose another.';
  const wrongPassword = 'The current password is wrong.';
  const notDeleted = 'The account is not deleted: the current password is wrong.';
  const lifetime = 'Expires must be one of never, 30d, 90d, 365d.';
  const overlap = 'Overlap must be one of none, 1h, 24h, 7d.';
  const noScope = 'Scopes must be at least one of pets:read, pets:write.';
  const like = 'passwordpassword';
  const scopes = 'pets:read';
  const expires = 'never';

  /** `faults`: what is wrong, by the control at which the page says so, or `none`. */
  const forms: [path: string, form: Record<string, string | string[]>, faults: Record<string, string>][] = [
    ['/account/sign-in', { name: 'ada', password: 'wrong' }, { none: 'The name or the password is wrong.' }],
    ['/account/sign-in', { name: 'ada', password: [password, password] }, { password: 'Password must be given once.' }],
    [
      '/account/sign-in',
      { name: 'ada', 'password[$ne]': 'x' },
      { password: 'Password is required.', none: '"password[$ne]" is not a known field.' },
    ],
    ...['   ', '🦊'.repeat(101), 'a\na', 'a\u202Ea', 'a\u200d', '\u200da', 'a \u200db', 'a\u2028a'].map(
      (name): [string, Record<string, string>, Record<string, string>] => [
        '/account/sign-up',
        { name, password },
        { name: wrongName },
      ],
    ),
    ['/account/sign-up', { name: 'ada', password }, { name: taken }],
    ['/account/sign-up', { name: '', password: 'short' }, { name: wrongName, password: short }],
    ['/account/sign-up', { name: password, password: password.toUpperCase() }, { password: likeName }],
    ['INVITATION', { name: 'ada', password }, { name: taken }],
    ['RESET', { password: like }, { password: common }],
    ['/account/keys', { name: '', expires }, { name: wrongName, scopes: noScope }],
    ['/account/keys', { name: 'x', scopes: ['pets:read', 'admin'], expires }, { scopes: noScope }],
    ['/account/keys', { name: 'x', scopes: ['pets:read', 'pets:read'], expires }, { scopes: noScope }],
    ['/account/keys', { name: 'x', scopes, expires: ['never', '30d'] }, { expires: lifetime }],
    ['/account/keys', { name: 'x', scopes, expires, account: 'ben' }, { none: wrongAccount }],
    ['/account/keys/2', { name: '' }, { name: wrongName, scopes: noScope }],
    ['/account/keys/2/rotate', { overlap: 'valueOf' }, { 'overlap-2': overlap }],
    ['/account/keys/2/revoke', { id: '1' }, { none: '"id" is not a known field.' }],
    ['/account/password', { current: 'wrong', password: next }, { current: wrongPassword }],
    ['/account/password', { current: password, password: like }, { password: common }],
    ['/account/password', { password: next }, { current: 'Current is required.' }],
    ['/account/delete', { current: 'wrong' }, { confirm: notDeleted }],
  ];

  test('changes nothing, and has each fault at its field, and in a summary that links to it', async () => {
    const { app, account, here } = await startWithAda();
    const nobody = app.open();
    await makeKey(here);
    const links: Record<string, string> = {
      INVITATION: await app.addLink('invitation'),
      RESET: await app.addLink('reset', account),
    };
    const before = await stateOf(app);
    for (const [path, form, faults] of forms) {
      const page = await (/keys|password|delete/.test(path) ? here : nobody).post(links[path] ?? path, form);
      const what = `${path} ${JSON.stringify(form)}`;
      const isWrong = Object.values(faults).some((text) => text.endsWith('password is wrong.'));
      expect([page.status, page.cookies], what).toEqual([isWrong ? 403 : 400, []]);
      const atFields = Object.entries(faults).filter(([id]) => id !== 'none');
      for (const [id, text] of atFields) {
        expect(faultAt(page, id), what).toBe(text);
        expect(page.text, what).toContain(`<a href="#${id}">${text}</a>`);
        expect(page.text, what).toMatch(new RegExp(` aria-describedby="([a-z0-9-]+-hint )?${id}-fault"`));
      }
      expect(page.text.split('class="fault"'), what).toHaveLength(atFields.length + 1);
      expect(alertOf(page), what).toBe(Object.values(faults).join(' '));
      if (form.name) expect(page.text, what).toContain(`value="${form.name}"`);
      if (form.password) expect(page.text, what).not.toContain(`"${form.password}"`);
    }
    expect(await stateOf(app)).toEqual(before);
  });
});

test('the headers of every page and every error page keep it out of caches, frames and other sites', async () => {
  const app = await startPages();
  const account = await app.addPerson('ada');
  const ada = await app.enter(account, { 'sec-fetch-site': 'same-origin' });
  const nobody = app.open({ 'sec-fetch-site': 'none' });
  const links = [await app.addLink('invitation'), await app.addLink('reset', account)];
  const pages = [await makeKey(ada)];
  for (const path of [...paths, ...links, '/account/unknown']) {
    pages.push(await ada.get(path), await nobody.get(path), await ada.send('PUT', path));
    const headers = path.includes('sign-out') ? { 'sec-fetch-site': 'cross-site' } : {};
    pages.push(await ada.post(path, { name: 'ada', current: 'x', password: 'y' }, headers));
  }
  pages.push(await ada.post('/account/keys', 'a'.repeat(20_000)));
  pages.push(await ada.post('/account/keys', '{}', { 'content-type': 'application/json' }));
  expect(new Set(pages.map(({ status }) => status))).toEqual(new Set([200, 303, 400, 403, 404, 405, 413, 415]));
  const strict = {
    'cache-control': 'no-store',
    'content-security-policy':
      "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    'referrer-policy': 'no-referrer',
    'x-content-type-options': 'nosniff',
    'cross-origin-opener-policy': 'same-origin',
    'cross-origin-resource-policy': 'same-origin',
    'x-request-id': expect.stringMatching(/^[0-9a-f-]{36}$/),
  };
  for (const { headers, status, text } of pages) {
    expect(headers, text).toMatchObject(strict);
    if (status === 303) continue;
    expect(headers['content-type']).toBe('text/html; charset=utf-8');
    // Nothing that the policy would block, and nothing of another host.
    expect(text).not.toMatch(/<style|<script>|\sstyle=|\son\w+=|javascript:|(?:href|src|action)="(?!\/|#[a-z0-9-]+")/i);
  }
  // Browsers that send no Sec-Fetch-Site must send Origin.
  const { headers } = await app.open().get('/account/sign-in');
  expect(headers).toMatchObject({ ...strict, 'referrer-policy': 'same-origin' });
});

test('the trail has a log line and a count for each event, with ids and the address; nothing has a name or a secret', async () => {
  const app = await startPages({ trustProxy: ['127.0.0.1'] });
  const ada = app.open({ 'x-forwarded-for': '[2001:db8::7]:5001' });
  const [name, key] = ['canary-name-4711', 'canary-key-4712'];
  const [first, second, wrong] = ['password of canary 4713', 'password of canary 4714', 'password of canary 4715'];
  const words: string[] = [name, key, first, second, wrong];
  const send = async (path: string, form: Record<string, string> | string = {}) => {
    const page = await ada.post(path, form);
    words.push(...[ada.jar.get(ada.sessionName) ?? []].flat());
    return page;
  };
  const link = async (...given: Parameters<PagesApp['addLink']>) => {
    const path = await app.addLink(...given);
    words.push(path.slice('/account/links/'.length));
    await ada.get(path);
    return path;
  };
  await send('/account/sign-up', { name, password: first });
  await send('/account/sign-out');
  await send('/account/sign-in', { name, password: first });
  await send('/account/sign-in', { name, password: wrong });
  await send('/account/sign-in', { name: 'nobody', password: wrong });
  for (const page of [await makeKey(ada, { name: key }), await rotateKey(ada, 2, '1h')]) {
    words.push(keyOf(page), keyOf(page).slice(0, 13));
    await app.get('/v1/pets/1', { key: keyOf(page) });
  }
  await send('/account/keys/3', { name: key, scopes: 'pets:read' });
  await send('/account/keys/2/revoke');
  await send('/account/password', { current: first, password: second });
  await send('/account/delete', { current: wrong });
  await send('/account/delete', { current: second });
  await send(await link('invitation'), { name: 'ben', password: first });
  const [, ben] = await app.store.accounts.listAccounts();
  await send(await link('reset', ben), { password: second });
  // None of these is an event.
  await send('/account/sign-up', { name: 'ben', password: first });
  await send('/account/keys/99/revoke');
  await send('/account/keys', { [name]: first });
  await send('/account/sign-out-everywhere');
  for (const path of [`sign-in?name=${name}`, name, `links/${name}`]) await ada.get(`/account/${path}`);

  const found = app.events();
  expect(found.map(({ event, account, key }) => [event, account, key].filter((part) => part !== undefined))).toEqual([
    ['account_created', 2],
    ['signed_in', 2],
    ['sign_in_refused', 2],
    ['sign_in_refused'],
    ['key_created', 2, 2],
    ['key_rotated', 2, 3],
    ['key_changed', 2, 3],
    ['key_revoked', 2, 2],
    ['password_changed', 2],
    ['sign_in_refused', 2],
    ['account_removed', 2],
    ['account_created', ben?.id],
    ['password_changed', ben?.id],
  ]);
  for (const { address, reqId } of found) {
    expect(address).toBe('2001:db8::7');
    expect(app.logged(`"reqId":"${reqId}"`).map((line) => line.address)).toEqual([address, address]);
  }
  const counts: Record<string, number> = {};
  for (const { event } of found) counts[event] = (counts[event] ?? 0) + 1;
  expect(await app.counts()).toEqual(counts);
  const texts = app.log() + (await app.metrics.text());
  expect(words.filter((word) => word.length < 10)).toEqual([]);
  expect(words.filter((word) => texts.includes(word) || texts.includes(encodeURIComponent(word)))).toEqual([]);
});

describe('with a public address of https', () => {
  const baseUrl = 'https://animals.example.com/v1';
  const origin = 'https://animals.example.com';
  const https = { 'x-forwarded-proto': 'https', host: 'animals.example.com' };
  const secure = /^__Host-session=[A-Za-z0-9_-]{43}; Max-Age=43200; Path=\/; HttpOnly; Secure; SameSite=Lax$/;

  test('the cookie is for this host over https alone', async () => {
    const app = await startPages({ baseUrl, trustProxy: ['127.0.0.1'] });
    const ada = app.open(https);
    for (const [path, headers] of [
      ['sign-up', { origin, 'x-forwarded-proto': 'HTTPS' }],
      ['sign-in', { origin, 'sec-fetch-site': undefined }],
    ] as const) {
      const signed = await ada.post(`/account/${path}`, { name: 'ada', password }, headers);
      expect(signed).toMatchObject({ ...toKeys, cookies: [expect.stringMatching(secure)] });
    }
    const out = await ada.post('/account/sign-out');
    expect(out.cookies[0]).toMatch(/^__Host-session=; .*Path=\/; .*HttpOnly; Secure; SameSite=Lax$/);
  });

  test.each([
    ['without the proxy', ['127.0.0.1'], {}],
    ['with X-Forwarded-Proto: http', ['127.0.0.1'], { 'x-forwarded-proto': 'http' }],
    ['with two values of X-Forwarded-Proto', ['127.0.0.1'], { 'x-forwarded-proto': 'https,http' }],
    ['with a long X-Forwarded-Proto', ['127.0.0.1'], { 'x-forwarded-proto': 'x'.repeat(5000) }],
    ['with X-Forwarded-Proto of an address that is not trusted', ['192.0.2.1'], { 'x-forwarded-proto': 'https' }],
    ['without TRUST_PROXY', undefined, { 'x-forwarded-proto': 'https' }],
  ])(
    'every page is refused over plain http, %s, and no cookie is read or set',
    async (_how, trustProxy, headers: Record<string, string>) => {
      const app = await startPages({ baseUrl, trustProxy });
      const ada = await app.enterAs('ada', headers);
      for (const path of paths) {
        for (const page of [await ada.get(path), await ada.post(path, { name: 'ada', password })]) {
          if (page.status === 405) continue;
          expect(page, path).toMatchObject({ status: 403, cookies: [] });
          expect(alertOf(page)).toBe('This page is only available over https, at https://animals.example.com/account.');
          // The page does not show whose session the cookie is.
          expect(page.text).not.toContain('Sign out');
        }
      }
      const warnings = app.logged('refused over plain http');
      expect(warnings.map(({ forwardedProto }) => forwardedProto)).toEqual([
        headers['x-forwarded-proto']?.slice(0, 20),
      ]);
      expect((await app.get('/v1/pets')).status).toBe(200);
    },
  );
});

test('below a path of the public address, links, forms and redirects begin with it', async () => {
  const app = await startPages({ baseUrl: 'http://example.com/store/v1' });
  const account = await app.addPerson('ada');
  const [ada, nobody] = [await app.enter(account), app.open()];
  const made = await makeKey(ada);
  expect(curlOf(made)).toContain(" 'http://example.com/store/v1/pets'");
  const pages = [made, await nobody.get(await app.addLink('reset', account)), await app.signIn('ada', 'wrong')];
  for (const path of ['', '/settings', '/keys', '/keys/2', '/x']) pages.push(await ada.get(`/account${path}`));
  for (const path of ['', '/sign-up', '/links/x']) pages.push(await nobody.get(`/account${path}`));
  pages.push(await ada.post('/account/keys/2/revoke'), await ada.post('/account/sign-out'));
  const addresses = pages.flatMap(({ text, headers }) => [
    ...[...text.matchAll(/(?:href|src|action)="([^"]*)"/g)].map(([, address]) => address as string),
    ...[headers.location ?? []].flat(),
  ]);
  expect(addresses.length).toBeGreaterThan(60);
  const outside = /^(?!\/store\/(account|docs)(\/|$|\?|#)|#[a-z0-9-]+$)/;
  expect(addresses.filter((address) => outside.test(address))).toEqual([]);
});
