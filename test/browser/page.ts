/** Opens pages of a real server in a real browser. */
import { existsSync } from 'node:fs';
import axe from 'axe-core';
import {
  type Browser,
  type BrowserContext,
  type BrowserContextOptions,
  chromium,
  type LaunchOptions,
  type Locator,
  type Page,
} from 'playwright-core';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { type Server, startServer } from '../support/process.ts';
import { projectFolder } from '../support/project.ts';

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
          ...['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-sync'],
          ...['--disable-background-networking', '--disable-component-update'],
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

export interface OpenPage {
  context: BrowserContext;
  page: Page;
  /** Faults so far: requests to other origins, messages on the console, dialogs, and uncaught errors. */
  faults: () => string[];
}

/** Opens an empty page in a browser context of its own, which is closed when the test ends. */
export async function openPage(origin: string, options: BrowserContextOptions = {}): Promise<OpenPage> {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  onTestFinished(() => context.close());
  const page = await context.newPage();
  const faults: string[] = [];
  page.on('request', (request) => {
    const { origin: requested, protocol } = new URL(request.url());
    if (requested !== origin && protocol !== 'data:') faults.push(`request to ${request.url()}`);
  });
  page.on('console', (message) => {
    // The renderer of the reference page writes its version.
    if (!message.text().startsWith('@scalar/api-reference@')) faults.push(`console: ${message.text()}`);
  });
  page.on('dialog', (dialog) => {
    faults.push(`dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  page.on('pageerror', (error) => faults.push(`error: ${error.message}`));
  return { context, page, faults: () => faults };
}

export interface Reference extends OpenPage {
  server: Server;
  key: string;
  /** Opens the page at a place, for example pets/getPet, and returns the section of that operation. */
  open: (place: string, slug?: string) => Promise<Locator>;
  /** Enters the API key in the field of the page. */
  authenticate: (key: string) => Promise<void>;
  /** Opens the panel of an operation, sends its request, and returns the panel when it shows the response. */
  send: (operation: Locator, change?: (panel: Locator) => Promise<void>) => Promise<Locator>;
}

/** Starts a server and a browser context; both are closed when the test ends. */
export async function openReference(options: BrowserContextOptions = {}): Promise<Reference> {
  const server = await startServer();
  const key = await server.firstKey();
  const opened = await openPage(server.url, options);
  const { page } = opened;

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
  return { ...opened, server, key, open, authenticate, send };
}

/** Violations of WCAG 2.2, levels A and AA, that axe finds; and of more rules, by their tags. */
export async function accessibilityFaults(page: Page, ...more: string[]): Promise<string[]> {
  await page.evaluate(axe.source);
  const tags = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', ...more];
  return page.evaluate(async (runOnly) => {
    // biome-ignore lint/suspicious/noExplicitAny: the script above has just defined it.
    const { violations } = await (globalThis as any).axe.run({ runOnly });
    return violations.flatMap(({ id, nodes }: { id: string; nodes: { html: string }[] }) =>
      nodes.map(({ html }) => `${id}: ${html}`),
    );
  }, tags);
}

/** Saves a screenshot for visual inspection. Git ignores screenshots/. */
export async function picture(page: Page, name: string, options: { fullPage?: boolean } = {}): Promise<void> {
  const bytes = await page.screenshot({ path: `${projectFolder}screenshots/${name}.png`, ...options });
  expect(bytes.length).toBeGreaterThan(10_000);
}
