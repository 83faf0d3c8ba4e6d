/** Sets up what all account pages share: cookies, forms, sessions, limits of attempts, and the checks of each request. */
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
import { createAttempts } from './attempts.ts';
import { installForms, isSameOrigin } from './forms.ts';
import type { AccountKeysOptions } from './keys.ts';
import { createPages } from './pages.ts';
import { createPasswords } from './passwords.ts';
import type { SignUp } from './routes.ts';
import { createSessions } from './session.ts';
import type { RecordEvent } from './trail.ts';

export interface AccountPagesOptions {
  accounts: Accounts;
  people: People;
  record: RecordEvent;
  exchanges: Exchanges;
  sendError: SendError;
  logError: LogError;
  logger: FastifyBaseLogger;
  now: () => Date;
  /** True in production, whose API keys start with `ast_live_`. */
  live: boolean;
  /** Public base address, ending in /v1. */
  baseUrl: string | undefined;
  signUp: SignUp;
  /** Reads a file of the project. */
  readFile: (name: string) => Promise<Buffer>;
}

/** Prepares the scope `app` for the routes of the account pages. */
export async function installAccountPages(app: App, options: AccountPagesOptions): Promise<AccountKeysOptions> {
  const { accounts, people, record, exchanges, sendError, logError, logger, now, live, baseUrl, signUp, readFile } =
    options;
  const address = baseUrl === undefined ? undefined : new URL(baseUrl);
  const secure = address?.protocol === 'https:';
  const rootPath = address?.pathname.slice(0, -'/v1'.length) ?? '';
  // The session's cookie is not encoded. By default an error is thrown and caught for each cookie that is encoded wrongly. The type lacks `decode`.
  const parseOptions: object = { decode: (value: string) => value };
  await app.register(cookie, { parseOptions });
  await installForms(app);
  const sessions = createSessions(app, { people, now, secure });
  const pages = createPages(app, { readFile, rootPath, exchanges, sendError, logError });
  let warned = false;

  app.addHook('onRequest', async (request) => {
    request.exchange.holder = networkOf(request.exchange.address);
    if (secure && request.protocol !== 'https') {
      if (!warned) logger.warn(plainHttp);
      warned = true;
      throw new ApiError(
        'forbidden',
        `This page is only available over https, at ${address?.origin}${pages.path('')}.`,
      );
    }
    const origin = address?.origin ?? `${request.protocol}://${hostOf(request.raw)}`;
    if (request.method === 'POST' && !isSameOrigin(request, origin))
      throw new ApiError('forbidden', 'This form was not sent from a page of this service.');
    const network = request.exchange.holder as string;
    const session = await exchanges.lookUp(network, () => sessions.find(request));
    if (session) request.exchange.holder = session.newFrom ?? session.account.id;
  });

  app.setNotFoundHandler(() => {
    throw new ApiError('route_not_found');
  });
  app.route({ method: ['GET', 'HEAD'], url: '/*', onRequest: noPage, handler: noPage });

  const passwords = createPasswords();
  const attempts = createAttempts(people, passwords, now);
  return { accounts, people, record, exchanges, now, live, baseUrl, signUp, sessions, pages, attempts, passwords };
}

/** For people: the server's own response to an unknown path describes the API. */
export function noPage({ exchange }: FastifyRequest): never {
  exchange.route = null;
  throw new ApiError('route_not_found', 'There is no such page.');
}

const plainHttp =
  'an account page was refused over plain http: name the proxy that ends TLS in TRUST_PROXY, and let it send X-Forwarded-Proto';

/** Redirects requests for a page without a session to the sign-in page, before their body is read. */
export function requireSession(app: App, { pages, sessions }: Pick<AccountKeysOptions, 'pages' | 'sessions'>): void {
  app.addHook('onRequest', async (request, reply) => {
    const { method, routeOptions } = request;
    const isPage = method === 'GET' || method === 'HEAD' || (method === 'POST' && routeOptions.config.form);
    if (!request.session && isPage)
      return pages.redirect(reply, sessions.isGiven(request) ? '/sign-in?done=ended' : '/sign-in');
  });
}
