/** Tests in a real browser that a page of another origin can neither send a form of the account pages for a signed-in person nor frame them. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { startServer } from '../support/process.ts';
import { openAccount, password, storeOf } from './account.ts';
import { describeInBrowser, otherHost } from './page.ts';

/** A form that is sent at once. */
const sent = (action: string, fields: Record<string, string>) =>
  `<form method="post" action="${action}">${Object.entries(fields)
    .map(([name, value]) => `<input type="hidden" name="${name}" value="${value}">`)
    .join('')}</form><script>document.forms[0].submit()</script>`;

/** Starts a server that answers each path with its page; resolves to its port. */
async function startSite(pages: Record<string, string>): Promise<number> {
  const site = createServer((request, response) => {
    response.setHeader('content-type', 'text/html').end(pages[request.url as string] ?? '');
  });
  onTestFinished(() => void site.close());
  await new Promise<void>((resolve) => site.listen(0, '127.0.0.1', resolve));
  return (site.address() as AddressInfo).port;
}

describeInBrowser('a page', () => {
  // The browser leaves out the cookie (SameSite) only for the first: the second is the same site, although another origin.
  test.each([
    ['of another host', otherHost],
    ['of another port of the same host', '127.0.0.1'],
  ])('%s cannot send a form for a signed-in person, and not show her pages in a frame', async (_, host) => {
    const server = await startServer();
    const { page, context, signUp } = await openAccount(server);
    await signUp('robin');
    const { accounts } = await storeOf(server);
    const root = `${server.url}/account`;
    const port = await startSite({
      '/keys': sent(`${root}/keys`, { name: 'stolen', scopes: 'pets:read', expires: 'never' }),
      '/sign-up': sent(`${root}/sign-up`, { name: 'mallory', password }),
      '/frames': `<iframe name="pages" src="${root}"></iframe><iframe name="own" src="/framed"></iframe>`,
      '/framed': '<p>A page that can be framed.</p>',
    });
    const stateOf = async () => [
      ...[await accounts.listAccounts(), await accounts.listKeys('robin')],
      await context.cookies(server.url),
    ];
    const before = await stateOf();
    for (const path of ['/keys', '/sign-up']) {
      const answered = page.waitForResponse((response) => response.request().method() === 'POST');
      await page.goto(`http://${host}:${port}${path}`);
      const response = await answered;
      expect([response.url(), response.status()]).toEqual([root + path, 403]);
      const { cookie } = await response.request().allHeaders();
      expect([path, cookie !== undefined]).toEqual([path, host !== otherHost]);
      expect(await stateOf(), path).toEqual(before);
    }

    const answered = page.waitForResponse(root);
    await page.goto(`http://${host}:${port}/frames`);
    await answered;
    expect(await page.frame('own')?.textContent('body')).toBe('A page that can be framed.');
    // Chromium shows its own error page instead.
    await expect.poll(() => page.frame('pages')?.url()).toBe('chrome-error://chromewebdata/');
    expect(await page.frame('pages')?.content()).not.toMatch(/robin|API keys|Sign (in|out)/);
  });
});
