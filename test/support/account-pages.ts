/** Starts the server with people who have accounts, signs them in without hashing a password, and reads what pages and log say. */
import { createPasswords } from '../../src/account/passwords.ts';
import type { Account } from '../../src/core/accounts.ts';
import { type LinkPurpose, newToken, type TrailEvent } from '../../src/core/people.ts';
import { startApp, valuesOf } from './app.ts';
import { type FormClient, openFormClient, type Page } from './form-client.ts';
import { textRows } from './store.ts';

/** The password of every person that `addPerson` adds. */
export const password = 'seven otters sing at noon';
/** Another one that the rules allow. */
export const next = 'forty herons walk by the canal';
/** The password of nobody. */
export const wrong = 'wrong horse wrong battery';

/** A hash takes a tenth of a millisecond. What OWASP recommends is tested in passwords.test.ts. */
const passwordCost = { memory: 8, passes: 1, parallelism: 1 };
const passwords = createPasswords(passwordCost);

interface LoggedEvent {
  event: TrailEvent;
  account?: number;
  key?: number;
  address?: string;
  reqId?: string;
}

export type PagesApp = Awaited<ReturnType<typeof startPages>>;

export async function startPages(options: Parameters<typeof startApp>[0] = {}) {
  const app = await startApp({ passwordCost, ...options });
  const { people } = app.store;
  const { protocol, port } = new URL(options.baseUrl ?? app.url);
  const cookieName = protocol === 'https:' ? '__Host-session' : `session-${port || 80}`;
  type Headers = Record<string, string>;
  const open = (headers?: Headers) => openFormClient(app.url, headers);

  const addPerson = async (name: string) => {
    const account = await people.signUp(name, await passwords.inTurn('', ({ hash }) => hash(password)));
    if (typeof account === 'string') throw new Error(`${name}: ${account}`);
    return account;
  };
  const enter = async ({ id, name }: Account, headers?: Headers) => {
    const client = open(headers);
    const { token, hash } = newToken();
    await people.addSession(hash, id, (await people.findPerson(name))?.passwordHash as string);
    client.jar.set(cookieName, token);
    return client;
  };

  return {
    ...app,
    /** A browser without cookies. `headers`: sent with each request. */
    open,
    addPerson,
    /** A browser with a session of the account. `headers`: sent with each request. */
    enter,
    /** Adds a person, and signs her in. */
    enterAs: async (name: string, headers?: Headers) => enter(await addPerson(name), headers),
    /** Sends the form of the sign-in page from a new browser. `text`: default, the password of `addPerson`. */
    signIn: (name: string, text = password, headers: Headers = {}) =>
      open(headers).post('/account/sign-in', { name, password: text }),
    /** The path of a new one-time link. */
    async addLink(purpose: LinkPurpose, account?: Account) {
      const { token, hash } = newToken();
      await people.addLink(hash, purpose, account?.id ?? null);
      return `/account/links/${token}`;
    },
    /** Events of the trail in the log. */
    events: (): LoggedEvent[] => app.logged('"event":'),
    /** Events of the trail in the metrics, without those that did not happen. */
    async counts() {
      const counted = Object.entries(await valuesOf(app.metrics, 'account_events_total'));
      return Object.fromEntries(counted.filter(([, value]) => value > 0));
    },
  };
}

const entities: Record<string, string> = { amp: '&', lt: '<', gt: '>', quot: '"', '#39': "'" };

/** The text of a page, or of a part, without its tags, in one line. */
export const plainText = ({ text }: Pick<Page, 'text'>) =>
  text
    .replace(/<[^>]*>/g, ' ')
    .replace(/\s+/g, ' ')
    .replace(/&(amp|lt|gt|quot|#39);/g, (_, entity) => entities[entity] as string);

const textIn = (pattern: RegExp, page: Page) => {
  const [, text] = pattern.exec(page.text) ?? [];
  return text === undefined ? undefined : plainText({ text }).trim();
};

/** What the page says is wrong. */
export const alertOf = (page: Page) => textIn(/<div [^>]*role="alert"[^>]*>([\s\S]*?)<\/div>/, page);
/** The sentence at the field whose control has this id. */
export const faultAt = (page: Page, id: string) =>
  textIn(new RegExp(`<span class="fault" id="${id}-fault">([^<]*)</span>`), page);
/** What the page says was done. */
export const noticeOf = (page: Page) => textIn(/<p [^>]*role="status"[^>]*>([^<]*)<\/p>/, page);
/** The API key that the page shows. */
export const keyOf = (page: Page) => textIn(/<code id="key">([^<]*)<\/code>/, page) as string;
/** The command that the page shows. */
export const curlOf = (page: Page) => textIn(/<code id="curl">([^<]*)<\/code>/, page) as string;

/** Everything that a form can change. */
export async function stateOf({ databaseUrl }: PagesApp) {
  const tables = ['account', 'api_key', 'session', 'one_time_link'];
  return Promise.all(tables.map((table) => textRows(databaseUrl, `SELECT * FROM ${table} ORDER BY 1`)));
}

/** The account `ada`, and two browsers in which she is signed in. */
export async function startWithAda() {
  const app = await startPages();
  const account = await app.addPerson('ada');
  return { app, account, here: await app.enter(account), there: await app.enter(account) };
}

/** The names of the accounts, in the order in which they were added, without that of the API key. */
export const namesOf = async ({ databaseUrl }: PagesApp) =>
  (await textRows(databaseUrl, "SELECT name FROM account WHERE name <> 'tests' ORDER BY id")).map(({ name }) => name);

/** The cookie of a session that begins over http, and the one that removes it. */
export const sessionCookie = /^session-\d+=[A-Za-z0-9_-]{43}; Max-Age=43200; Path=\/; HttpOnly; SameSite=Lax$/;
export const removedCookie =
  /^session-\d+=; (?:Max-Age=0; )?Path=\/; Expires=Thu, 01 Jan 1970 00:00:00 GMT; HttpOnly; SameSite=Lax$/;

/** A response that leads to another page. */
export const redirect = (location: string) => ({ status: 303, headers: { location } });
export const toKeys = redirect('/account?done=signed-in');
export const ended = redirect('/account/sign-in?done=ended');
export const signedOut = redirect('/account/sign-in?done=signed-out');

/** Makes an API key with a form. Resolves to the page that shows it: that of 3.0.1 has an address of its own. */
export async function makeKey(
  client: FormClient,
  form: Record<string, string | string[]> = {},
  headers: Record<string, string> = {},
) {
  const fields = { name: 'website', scopes: ['pets:read', 'pets:write'], expires: 'never', ...form };
  const page = await client.post('/account/keys', fields, headers);
  return page.headers.location === '/account/keys/new' ? client.get('/account/keys/new', headers) : page;
}

/** Rotates an API key with a form. Resolves to the page that shows its successor. */
export const rotateKey = (client: FormClient, id: number, overlap: string) =>
  client.post(`/account/keys/${id}/rotate`, { overlap });

/** The token of the forms of a page. */
export const formTokenOf = ({ text }: Page) => /name="token" value="([\w-]+)"/.exec(text)?.[1] as string;
