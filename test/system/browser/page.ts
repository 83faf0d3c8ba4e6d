/** Opens pages of a real server in a real browser. */
import { existsSync } from 'node:fs';
import axe from 'axe-core';
import {
  type Browser,
  type BrowserContextOptions,
  chromium,
  type LaunchOptions,
  type Locator,
  type Page,
} from 'playwright-core';
import { afterAll, beforeAll, describe, onTestFinished, test } from 'vitest';
import { startServer } from '../../support/process.ts';

/** Default: Chromium of Debian; CHROMIUM names another one. */
const executablePath = process.env.CHROMIUM ?? '/usr/bin/chromium';

/** Another name of this machine, in the browser only. */
export const otherHost = 'store.example.com';

let browser: Browser;

/** Runs tests in a separate browser with a temporary profile; skips them if Chromium is not installed. */
export function describeInBrowser(name: string, tests: () => void, options: LaunchOptions = {}): void {
  if (!existsSync(executablePath))
    return void describe(name, () => test.skip(`Chromium (Debian: chromium) is not installed`));
  describe(name, () => {
    beforeAll(async () => {
      browser = await chromium.launch({
        executablePath,
        args: [
          '--no-sandbox',
          '--disable-gpu',
          '--disable-quic',
          '--no-first-run',
          '--disable-sync',
          '--disable-background-networking',
          '--disable-component-update',
          // A page from there is not trustworthy as one from this machine is (Secure Contexts, section 3.1).
          `--host-resolver-rules=MAP ${otherHost} 127.0.0.1`,
        ],
        ...options,
      });
    });
    afterAll(() => browser.close());
    tests();
  });
}

const phone = { width: 390, height: 844 };
/** The screens and themes in which each page is looked at. */
export const looks = [
  ['light', {}],
  ['dark', { colorScheme: 'dark' }],
  ['narrow', { viewport: phone }],
  ['narrow and dark', { viewport: phone, colorScheme: 'dark' }],
] as const;

export const clipboard = { permissions: ['clipboard-read', 'clipboard-write'] };

/**
 * Opens an empty page in a browser context of its own, which is closed when the test ends. `faults` returns those so far: requests to other origins,
 * messages on the console, dialogs, and uncaught errors.
 */
export async function openPage(origin: string, options: BrowserContextOptions = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  onTestFinished(() => context.close());
  const page = await context.newPage();
  const faults: string[] = [];
  page.on('request', (request) => {
    const { origin: requested, protocol } = new URL(request.url());
    if (requested !== origin && protocol !== 'data:') faults.push(`request to ${request.url()}`);
  });
  page.on('console', (message) => void faults.push(`console: ${message.text()}`));
  page.on('dialog', (dialog) => {
    // A warning before the page of a new key is left.
    if (dialog.type() === 'beforeunload') return void dialog.accept();
    faults.push(`dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  page.on('pageerror', (error) => faults.push(`error: ${error.message}`));
  return { context, page, faults: () => faults };
}

/** Starts a server and a browser context; both are closed when the test ends. */
export async function openReference(options: BrowserContextOptions = {}) {
  const server = await startServer();
  const key = await server.firstKey();
  const opened = await openPage(server.url, options);
  const { page } = opened;

  /** Opens the page at a place, for example pets/getPet, and returns the section of that operation. */
  async function open(place: string, slug = 'animal-store'): Promise<Locator> {
    await page.goto('about:blank');
    const url = `${server.url}/docs${slug === 'animal-store' ? '' : '/quickstart'}`;
    await page.goto(url + (place && `#${slug}/tag/${place}`));
    return place ? page.locator(`section[id="${slug}/tag/${place}"]`) : page.getByRole('main');
  }

  /** Opens the panel of an operation if it is closed, sends its request, and returns the panel when it shows the response. */
  async function send(operation: Locator, change?: (panel: Locator) => Promise<void>): Promise<Locator> {
    const panel = operation.locator('form');
    if (!(await panel.isVisible())) await operation.getByText('Try it').click();
    await change?.(panel);
    await panel.getByRole('button', { name: 'Send', exact: true }).click();
    await panel
      .getByRole('status')
      .filter({ hasText: /^(\d{3}|No response|Not sent)/ })
      .waitFor();
    return panel;
  }

  /** Enters the API key in the first field that is shown: all have one value. */
  const authenticate = (secret = key) =>
    page.getByLabel('API key', { exact: true }).filter({ visible: true }).first().fill(secret);
  return { ...opened, server, key, open, authenticate, send };
}

/** Violations of WCAG 2.2, levels A and AA, and of best practice that axe finds within an element. */
export async function accessibilityFaults(page: Page, within = 'html'): Promise<string[]> {
  await page.evaluate(axe.source);
  const tags = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'];
  const run = async ([context, runOnly]: [string, string[]]) => {
    // biome-ignore lint/suspicious/noExplicitAny: the script above has just defined it.
    const { violations } = await (globalThis as any).axe.run(context, { runOnly });
    return violations.flatMap(({ id, nodes }: { id: string; nodes: { html: string }[] }) =>
      nodes.map(({ html }) => `${id}: ${html}`),
    );
  };
  return page.evaluate(run, [within, tags] as [string, string[]]);
}

/** Texts that do not fit: what is wider than the page or than its box, and buttons that cover text. Opens all parts of the page first. */
export function clipped(page: Page): Promise<string[]> {
  return page.evaluate(() => {
    // biome-ignore lint/suspicious/noExplicitAny: it runs in the page, whose globals have no types here.
    const { document, innerWidth, getComputedStyle } = globalThis as any;
    for (const details of document.querySelectorAll('details')) {
      details.removeAttribute('name');
      details.open = true;
    }
    const faults: string[] = [];
    for (const element of document.querySelectorAll('body *')) {
      if (!element.checkVisibility() || element.closest('.unseen, input, textarea, select')) continue;
      const { left, right, top, bottom } = element.getBoundingClientRect();
      const name = `${element.tagName} ${element.textContent.trim().slice(0, 40)}`;
      if (left < -0.5 || right > innerWidth + 0.5) faults.push(`beyond the page: ${name}`);
      if (getComputedStyle(element).overflowX !== 'visible' && element.scrollWidth > element.clientWidth)
        faults.push(`cut off: ${name}`);
      if (!element.matches('button')) continue;
      for (const text of element.parentElement.querySelectorAll('pre')) {
        const box = text.getBoundingClientRect();
        if (left < box.right && box.left < right && top < box.bottom && box.top < bottom)
          faults.push(`covers: ${name}`);
      }
    }
    return faults;
  });
}
