/** The scope of the account pages: what each of their requests meets, and what their routes share. */
import cookie from '@fastify/cookie';
import type { FastifyBaseLogger, FastifyRequest } from 'fastify';
import type { Accounts } from '../core/accounts.ts';
import { ApiError } from '../core/errors.ts';
import type { People } from '../core/people.ts';
import { networkOf } from '../http/addresses.ts';
import type { LogError, SendError } from '../http/errors.ts';
import type { Exchanges } from '../http/exchange.ts';
import { hostOf } from '../http/hosts.ts';
import type { App } from '../http/operation.ts';
import { type Attempts, createAttempts } from './attempts.ts';
import { installForms, isSameOrigin } from './forms.ts';
import { createPages, type Pages } from './pages.ts';
import { createPasswords, type Passwords } from './passwords.ts';
import { createSessions, type Sessions } from './session.ts';
import type { RecordEvent } from './trail.ts';

/** Who can create an account: anyone, people with an invitation, or nobody; `none`: there are no account pages. */
export type SignUp = 'open' | 'invitation' | 'off' | 'none';

/** What the routes of the account pages share. */
export interface AccountScope {
  accounts: Accounts;
  people: People;
  passwords: Passwords;
  attempts: Attempts;
  sessions: Sessions;
  pages: Pages;
  exchanges: Exchanges;
  record: RecordEvent;
  now: () => Date;
  /** Whether the deprecated operation has been removed. */
  removed: () => boolean;
  /** True in production, whose API keys start with `ast_live_`. */
  live: boolean;
  /** Public base address, ending in /v1. If undefined, the pages show the address that the browser used. */
  baseUrl: string | undefined;
  signUp: SignUp;
}

export interface AccountScopeOptions extends Omit<AccountScope, 'passwords' | 'attempts' | 'sessions' | 'pages'> {
  sendError: SendError;
  logError: LogError;
  logger: FastifyBaseLogger;
  /** Reads a file of src/pages/. */
  readFile: (name: string) => Promise<Buffer>;
}

/** Prepares the scope `app` for the routes of the account pages. */
export async function createAccountScope(
  app: App,
  { sendError, logError, logger, readFile, ...shared }: AccountScopeOptions,
): Promise<AccountScope> {
  const { baseUrl, exchanges, now, people } = shared;
  const address = baseUrl === undefined ? undefined : new URL(baseUrl);
  const secure = address?.protocol === 'https:';
  const rootPath = address?.pathname.slice(0, -'/v1'.length) ?? '';
  // The session's cookie is not encoded. By default an error is thrown and caught for each cookie that is encoded wrongly. The type lacks `decode`.
  const parseOptions: object = { decode: (value: string) => value };
  await app.register(cookie, { parseOptions });
  await installForms(app);
  const sessions = createSessions(app, { people, now, secure });
  const pages = createPages(app, { readFile, rootPath, exchanges, sendError, logError });
  installChecks(app, { address, exchanges, logger, pages, sessions });
  app.setNotFoundHandler(() => {
    throw new ApiError('route_not_found');
  });
  app.route({ method: ['GET', 'HEAD'], url: '/*', onRequest: noPage, handler: noPage });
  const passwords = createPasswords();
  return { ...shared, passwords, attempts: createAttempts(passwords, now), sessions, pages };
}

interface Checks extends Pick<AccountScope, 'exchanges' | 'pages' | 'sessions'> {
  /** The public address. */
  address: URL | undefined;
  logger: FastifyBaseLogger;
}

const plainHttp =
  'an account page was refused over plain http: name the proxy that ends TLS in TRUST_PROXY, and let it send X-Forwarded-Proto';

/** Rejects plain http if the public address is https, and forms of other sites. Then finds the session of the request. */
function installChecks(app: App, { address, exchanges, logger, pages, sessions }: Checks): void {
  const secure = address?.protocol === 'https:';
  let warned = false;
  app.addHook('onRequest', async (request) => {
    const network = networkOf(request.exchange.address);
    request.exchange.holder = network;
    if (secure && request.protocol !== 'https') {
      if (!warned) logger.warn(plainHttp);
      warned = true;
      throw new ApiError('forbidden', `This page is only available over https, at ${address.origin}${pages.path('')}.`);
    }
    const origin = address?.origin ?? `${request.protocol}://${hostOf(request.raw)}`;
    if (request.method === 'POST' && !isSameOrigin(request, origin))
      throw new ApiError('forbidden', 'This form was not sent from a page of this service.');
    const session = await exchanges.lookUp(network, () => sessions.find(request));
    if (session) request.exchange.holder = session.newFrom ?? session.account.id;
  });
}

/** For people: the server's own response to an unknown path describes the API. */
export function noPage({ exchange }: FastifyRequest): never {
  exchange.route = null;
  throw new ApiError('route_not_found', 'There is no such page.');
}

/** Redirects requests for a page without a session to the sign-in page, before their body is read. */
export function requireSession(app: App, { pages, sessions }: AccountScope): void {
  app.addHook('onRequest', async (request, reply) => {
    const { method, routeOptions } = request;
    const isPage = method === 'GET' || method === 'HEAD' || (method === 'POST' && routeOptions.config.form);
    if (!request.session && isPage)
      return pages.redirect(reply, sessions.isGiven(request) ? '/sign-in?done=ended' : '/sign-in');
  });
}
