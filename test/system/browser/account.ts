/** Does on the account pages, in a browser, what a person does. */
import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { promisify } from 'node:util';
import type { BrowserContextOptions } from 'playwright-core';
import { expect } from 'vitest';
import { newSecret } from '../../../src/core/accounts.ts';
import type { Store } from '../../../src/store/store.ts';
import { runCli, type Server } from '../../support/process.ts';
import { open } from '../../support/store.ts';
import { openPage } from './page.ts';

export const password = 'a wren sang over the wet roofs';
export const otherPassword = 'seven owls left the barn at dusk';

/** What the page of a new key shows. */
interface ShownKey {
  key: string;
  curl: string;
}

export type AccountPage = Awaited<ReturnType<typeof openAccount>>;

/** Opens a browser context for the account pages. `origin`: the address of the server in the browser. */
export async function openAccount(
  server: Server,
  { origin = server.url, ...options }: BrowserContextOptions & { origin?: string } = {},
) {
  const opened = await openPage(origin, options);
  const { page } = opened;

  /** Opens a page below /account. */
  const visit = async (place: string) => void (await page.goto(`${origin}/account${place}`));
  /** Resolves when a page with this main heading is shown. */
  const shown = (title: string) => page.getByRole('heading', { level: 1, name: title, exact: true }).waitFor();

  /** Clicks a button or a link. On a narrow window the header has some in its menu. */
  async function click(role: 'button' | 'link', name: string): Promise<void> {
    const menu = page.locator('header summary');
    const target = page.getByRole(role, { name, exact: true });
    if (!(await target.isVisible()) && (await menu.isVisible())) await menu.click();
    await target.click();
  }
  const press = (name: string) => click('button', name);
  const follow = (name: string) => click('link', name);

  /** Fills in the form for a name and a password. */
  async function fill(name: string, secret: string): Promise<void> {
    await page.getByLabel('Name').fill(name);
    await page.getByLabel('Password', { exact: true }).fill(secret);
  }

  /** The row of one key in the list. */
  const row = (key: string) => {
    const own = page.locator('div:first-child > p > code').filter({ hasText: `${key.slice(0, 13)}…` });
    return page.getByRole('listitem').filter({ has: own });
  };

  /** Opens the form for a new key, and enters a name. */
  async function name(text: string): Promise<void> {
    if (!(await page.locator('#name').isVisible())) await page.getByText('Make a key', { exact: true }).click();
    await page.locator('#name').fill(text);
  }

  /** Reads the page of a new key. */
  async function readKey(): Promise<ShownKey> {
    await shown('Your new API key');
    const textOf = async (id: string) => (await page.locator(`#${id}`).textContent()) as string;
    return { key: await textOf('key'), curl: await textOf('curl') };
  }

  return {
    ...opened,
    server,
    visit,
    shown,
    press,
    follow,
    fill,
    readKey,
    async signUp(name: string) {
      await visit('/sign-up');
      await fill(name, password);
      await press('Create account');
      await shown('API keys');
    },
    name,
    /** Makes a key with the defaults of the form. */
    async makeKey(text: string) {
      await visit('');
      await name(text);
      await press('Make key');
      return readKey();
    },
    row,
    /** Opens the form for an action of a key, in the menu of its row. */
    async openAction(key: string, action: 'Rotate' | 'Revoke') {
      await row(key).locator('.more > summary').click();
      await row(key).locator('summary').filter({ hasText: action }).click();
    },
  };
}

/** Runs the text of a shown command in a shell, and returns the body and the status. */
export async function runShown(curl: string): Promise<string> {
  const { stdout } = await promisify(execFile)('bash', ['-c', `${curl} --silent --write-out ' %{http_code}'`]);
  return stdout;
}

/** Opens the store of a running server. */
export function storeOf({ folder }: Server): Promise<Store> {
  return open(`sqlite:${folder}/data/animal-store.db`);
}

/** Runs account invite or account reset for a running server, and returns the path of the link that it prints. */
export async function linkOf({ folder, port, url }: Server, ...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await runCli(['account', ...args], { folder, env: { PORT: String(port) } });
  expect(code, stderr).toBe(0);
  expect(stdout).toContain(`${url}/account/`);
  return stdout.trim().slice(`${url}/account`.length);
}

/** Adds a key that was used for a deprecated operation, and one that has expired, both with the name of the account. */
export async function addOldKeys({ accounts }: Store, account: string): Promise<void> {
  const key = { account, name: account, scopes: ['pets:read' as const] };
  const used = await accounts.addKey({ ...key, lifetimeMs: null, secret: newSecret(false) });
  await accounts.addKey({ ...key, lifetimeMs: 1, secret: newSecret(false) });
  const lastUsedAt = new Date();
  const errors = [
    { code: 'invalid_parameter', at: lastUsedAt, operation: 'GET /v1/pets/{petId}', requestId: randomUUID() },
  ];
  const counts = { succeeded: 1204, clientErrors: 12, deprecatedCalls: 3 };
  await accounts.recordUses([{ id: used?.id as number, lastUsedAt, ...counts, errors }]);
}
