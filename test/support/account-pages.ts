/** Starts the server with people who have accounts, signs them in without hashing a password, and reads what pages and log say. */
import { createPasswords } from '../../src/account/passwords.ts';
import type { AppOptions } from '../../src/app.ts';
import type { Account } from '../../src/core/accounts.ts';
import { type LinkPurpose, newToken, type TrailEventName } from '../../src/core/people.ts';
import { createMetrics, type Metrics } from '../../src/http/metrics.ts';
import { startApp, type TestApp } from './app.ts';
import { type FormClient, openFormClient, type Page } from './form-client.ts';

/** The password of every person that `addPerson` adds. */
export const password = 'seven otters sing at noon';

/** A hash takes a tenth of a millisecond. What OWASP recommends is tested in passwords.test.ts. */
const passwordCost = { memory: 8, passes: 1, parallelism: 1 };
const passwords = createPasswords(passwordCost);

interface LoggedEvent {
  event: TrailEventName;
  account?: number;
  key?: number;
  address?: string;
  reqId?: string;
}

export interface PagesApp extends TestApp {
  metrics: Metrics;
  /** A browser without cookies. `headers`: sent with each request. */
  open: (headers?: Record<string, string>) => FormClient;
  addPerson: (name: string) => Promise<Account>;
  /** A browser with a session of the account. `headers`: sent with each request. */
  enter: (account: Account, headers?: Record<string, string>) => Promise<FormClient>;
  /** Adds a person, and signs her in. */
  enterAs: (name: string, headers?: Record<string, string>) => Promise<FormClient>;
  /** The path of a new one-time link. */
  addLink: (purpose: LinkPurpose, account?: Account) => Promise<string>;
  /** Events of the trail in the log. */
  events: () => LoggedEvent[];
  /** Events of the trail in the metrics, without those that did not happen. */
  counts: () => Promise<Record<string, number>>;
}

export async function startPages(options: Partial<AppOptions> = {}): Promise<PagesApp> {
  const metrics = createMetrics('test');
  const app = await startApp({ metrics, passwordCost, ...options });
  const { people } = app.store;
  const cookieName = options.baseUrl?.startsWith('https:') ? '__Host-session' : 'session';
  const open: PagesApp['open'] = (headers) => openFormClient(app.url, headers);

  const addPerson: PagesApp['addPerson'] = async (name) => {
    const account = await people.signUp(name, await passwords.inTurn('', ({ hash }) => hash(password)));
    if (typeof account === 'string') throw new Error(`${name}: ${account}`);
    return account;
  };
  const enter: PagesApp['enter'] = async ({ id, name }, headers) => {
    const client = open(headers);
    const { token, hash } = newToken();
    await people.addSession(hash, id, (await people.findPerson(name))?.passwordHash as string);
    client.jar.set(cookieName, token);
    return client;
  };

  return {
    ...app,
    metrics,
    open,
    addPerson,
    enter,
    enterAs: async (name, headers) => enter(await addPerson(name), headers),
    async addLink(purpose, account) {
      const { token, hash } = newToken();
      await people.addLink(hash, purpose, account?.id ?? null);
      return `/account/links/${token}`;
    },
    events: () =>
      app
        .log()
        .split('\n')
        .filter((line) => line.includes('"event":'))
        .map((line) => JSON.parse(line)),
    async counts() {
      const found = await metrics.registry.getSingleMetric('animal_store_account_events_total')?.get();
      const counted = found?.values.filter(({ value }) => value > 0) ?? [];
      return Object.fromEntries(counted.map(({ labels, value }) => [String(labels.event), value]));
    },
  };
}

const entities: Record<string, string> = { '&amp;': '&', '&lt;': '<', '&gt;': '>', '&quot;': '"', '&#39;': "'" };

const decodeEntities = (html: string) =>
  html.replace(/&(?:amp|lt|gt|quot|#39);/g, (entity) => entities[entity] as string);

const textIn = (pattern: RegExp, { text }: Page) => {
  const found = pattern.exec(text)?.[1];
  return found === undefined ? undefined : decodeEntities(found);
};

/** The text of a page without its tags, in one line. */
export const plainText = ({ text }: Page) => decodeEntities(text.replace(/<[^>]*>/g, ' ').replace(/\s+/g, ' '));
/** What the page says is wrong. */
export const alertOf = (page: Page) => {
  const [alert] = /<div [^>]*role="alert"[\s\S]*?<\/div>/.exec(page.text) ?? [];
  return alert === undefined ? undefined : plainText({ ...page, text: alert }).trim();
};
/** The sentence at the field whose control has this id. */
export const faultAt = (page: Page, id: string) =>
  textIn(new RegExp(`<span class="fault" id="${id}-fault">([^<]*)</span>`), page);
/** What the page says was done. */
export const noticeOf = (page: Page) => textIn(/<p [^>]*role="status"[^>]*>([^<]*)<\/p>/, page);
/** The API key that the page shows. */
export const keyOf = (page: Page) => textIn(/<code id="key">([^<]*)<\/code>/, page) as string;
/** The command that the page shows. */
export const curlOf = (page: Page) => textIn(/<code id="curl">([^<]*)<\/code>/, page) as string;

/** A response that leads to another page. */
export const redirect = (location: string) => ({ status: 303, headers: { location } });

/** Makes an API key on the page. Resolves to the page that shows it. */
export async function makeKey(
  client: FormClient,
  form: Record<string, string | string[]> = {},
  headers: Record<string, string> = {},
): Promise<Page> {
  const filled = { name: 'website', scopes: ['pets:read', 'pets:write'], expires: 'never', ...form };
  return client.post('/account/keys', filled, headers);
}

/** Rotates an API key on the page. Resolves to the page that shows its successor. */
export async function rotateKey(client: FormClient, id: number, overlap: string): Promise<Page> {
  return client.post(`/account/keys/${id}/rotate`, { overlap });
}
