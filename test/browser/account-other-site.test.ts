/** Tests in a real browser that a page of another origin can neither send a form of the account pages for a signed-in person nor frame them. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { type Server, startServer } from '../support/process.ts';
import { openAccount, otherPassword, password, storeOf } from './account.ts';
import { describeInBrowser, otherHost } from './page.ts';

type Fields = Record<string, string>;

/** Forms that would each change something. Key 2 is the person's. */
const forms: [path: string, fields: Fields][] = [
  ['/keys', { name: 'stolen', scopes: 'pets:read', expires: 'never' }],
  ['/keys/2/rotate', { overlap: '1h' }],
  ['/keys/2/revoke', {}],
  ['/password', { current: password, password: otherPassword }],
  ['/sign-in', { name: 'eve', password }],
  ['/sign-up', { name: 'mallory', password }],
  ['/sign-out', {}],
  ['/sign-out-everywhere', {}],
  ['/delete', { current: password }],
];

const inputs = (fields: Fields) =>
  Object.entries(fields).map(([name, value]) => `<input type="hidden" name="${name}" value="${value}">`);

/** A page that sends a form at once. */
const sendingPage = (action: string, fields: Fields) =>
  `<form method="post" action="${action}">${inputs(fields).join('')}</form><script>document.forms[0].submit()</script>`;

/** Starts a server that answers each path with its page; resolves to its port. */
async function startSite(pages: Record<string, string>): Promise<number> {
  const site = createServer((request, response) => {
    response.setHeader('content-type', 'text/html').end(pages[request.url as string] ?? '');
  });
  onTestFinished(() => void site.close());
  await new Promise<void>((resolve) => site.listen(0, '127.0.0.1', resolve));
  return (site.address() as AddressInfo).port;
}

/** Everything that the forms could change in the store. */
async function stateOf(server: Server): Promise<unknown> {
  const { accounts, people } = await storeOf(server);
  return [await accounts.listAccounts(), await accounts.listKeys(), (await people.findPerson('robin'))?.passwordHash];
}

/** The browser leaves out the cookie (SameSite) only for the first: the second is the same site, although another origin. */
const hosts = [
  ['of another host', otherHost],
  ['of another port of the same host', '127.0.0.1'],
] as const;

describeInBrowser('a page', () => {
  test.each(hosts)('%s cannot send a form for a signed-in person', async (_, host) => {
    const server = await startServer();
    const { page, context, signUp, makeKey, readKey, visit, shown } = await openAccount(server);
    await (await openAccount(server)).signUp('eve');
    await signUp('robin');
    await makeKey('website');
    const pages = forms.map(([path, fields]) => [path, sendingPage(`${server.url}/account${path}`, fields)]);
    const port = await startSite(Object.fromEntries(pages));
    const before = { state: await stateOf(server), cookies: await context.cookies(server.url) };
    expect(before.cookies).toHaveLength(1);
    for (const [path] of forms) {
      const sent = page.waitForResponse((response) => response.request().method() === 'POST');
      await page.goto(`http://${host}:${port}${path}`);
      const response = await sent;
      expect([path, response.url(), response.status()]).toEqual([path, `${server.url}/account${path}`, 403]);
      const cookie = (await response.request().allHeaders()).cookie;
      expect([path, cookie !== undefined]).toEqual([path, host !== otherHost]);
      expect({ state: await stateOf(server), cookies: await context.cookies(server.url) }, path).toEqual(before);
    }
    await visit('');
    await shown('API keys');
    // The same form works on a page of the server itself.
    const [[path, fields]] = forms as [[string, Fields]];
    await page.evaluate(`document.body.insertAdjacentHTML('beforeend',
      ${JSON.stringify(`<form id="own" method="post" action="/account${path}">${inputs(fields).join('')}</form>`)});
      document.getElementById('own').submit();`);
    expect((await readKey()).key).toMatch(/^ast_test_/);
  });

  test.each(hosts)('%s cannot show the account pages in a frame', async (_, host) => {
    const server = await startServer();
    const { page, signUp } = await openAccount(server);
    await signUp('robin');
    const port = await startSite({
      '/': `<iframe name="pages" src="${server.url}/account"></iframe><iframe name="own" src="/framed"></iframe>`,
      '/framed': '<p>A page that can be framed.</p>',
    });
    const answered = page.waitForResponse(`${server.url}/account`);
    await page.goto(`http://${host}:${port}/`);
    await answered;
    expect(await page.frame('own')?.textContent('body')).toBe('A page that can be framed.');
    // Chromium shows its own error page instead.
    await expect.poll(() => page.frame('pages')?.url()).toBe('chrome-error://chromewebdata/');
    expect(await page.frame('pages')?.content()).not.toMatch(/robin|API keys|Sign (in|out)/);
  });
});
