/** The reference page in a real browser, before a real server with a key. */
import { existsSync } from 'node:fs';
import axe from 'axe-core';
import { type Browser, type BrowserContextOptions, chromium, type Locator, type Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { type Server, startServer } from '../support/process.ts';
import { projectFolder } from '../support/project.ts';

/** Debian's; CHROMIUM names another. */
const executablePath = process.env.CHROMIUM ?? '/usr/bin/chromium';

let browser: Browser;

/** Tests in a browser of their own, with a profile that goes with it; skipped where there is none. */
export function describeInBrowser(name: string, tests: () => void): void {
  if (!existsSync(executablePath))
    return void describe(name, () => test.skip(`Chromium (Debian: chromium) is not installed`));
  describe(name, () => {
    beforeAll(async () => {
      browser = await chromium.launch({
        executablePath,
        args: [
          ...['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-sync'],
          ...['--disable-background-networking', '--disable-component-update'],
        ],
      });
    });
    afterAll(() => browser.close());
    tests();
  });
}

export interface Reference {
  server: Server;
  key: string;
  page: Page;
  /** Opens the page at a place within it, such as pets/getPet, and returns that operation's part. */
  open: (place: string, slug?: string) => Promise<Locator>;
  /** Fills in the API key where the page asks for it. */
  authenticate: (key: string) => Promise<void>;
  /** Opens the panel of an operation, sends what it holds, and returns the panel when it shows an answer. */
  send: (operation: Locator, change?: (panel: Locator) => Promise<void>) => Promise<Locator>;
  /** What the page could be found fault with, so far: requests to elsewhere, and words on the console. */
  faults: () => string[];
}

/** Opens the page; its server and its profile are gone when the test ends. */
export async function openReference(options: BrowserContextOptions = {}): Promise<Reference> {
  const server = await startServer();
  const key = await server.firstKey();
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  onTestFinished(() => context.close());
  const page = await context.newPage();
  const faults: string[] = [];
  page.on('request', (request) => {
    const { origin, protocol } = new URL(request.url());
    if (origin !== server.url && protocol !== 'data:') faults.push(`request to ${request.url()}`);
  });
  page.on('console', (message) => {
    if (['error', 'warning'].includes(message.type())) faults.push(`console: ${message.text()}`);
  });
  page.on('pageerror', (error) => faults.push(`error: ${error.message}`));

  async function open(place: string, slug = 'animal-store'): Promise<Locator> {
    await page.goto('about:blank');
    await page.goto(`${server.url}/docs${place && `#${slug}/tag/${place}`}`);
    const part = place ? page.locator(`section[id="${slug}/tag/${place}"]`) : page.locator('.introduction-section');
    await part.waitFor();
    return part;
  }

  async function send(operation: Locator, change?: (panel: Locator) => Promise<void>): Promise<Locator> {
    await operation.getByRole('button', { name: 'Test Request' }).click();
    const panel = page.getByRole('dialog');
    await change?.(panel);
    await panel.getByRole('button', { name: 'Send' }).first().click();
    await panel.getByText('Response Headers').waitFor();
    return panel;
  }

  const authenticate = (secret: string) => page.getByPlaceholder('Token').first().fill(secret);
  return { server, key, page, open, authenticate, send, faults: () => faults };
}

/** What axe finds against WCAG 2.2, levels A and AA. */
export async function accessibilityFaults(page: Page): Promise<string[]> {
  await page.evaluate(axe.source);
  return page.evaluate(async () => {
    const runOnly = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'];
    // biome-ignore lint/suspicious/noExplicitAny: the script above has just defined it.
    const { violations } = await (globalThis as any).axe.run({ runOnly });
    return violations.flatMap(({ id, nodes }: { id: string; nodes: { html: string }[] }) =>
      nodes.map(({ html }) => `${id}: ${html}`),
    );
  });
}

/** Keeps a picture of the page, for eyes: screenshots/ stays out of the repository. */
export async function picture(page: Page, name: string): Promise<void> {
  const bytes = await page.screenshot({ path: `${projectFolder}screenshots/${name}.png` });
  expect(bytes.length).toBeGreaterThan(10_000);
}
