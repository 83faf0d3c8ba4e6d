/** The scope of the account pages: what each of their requests meets, and what their routes share. */
import cookie from '@fastify/cookie';
import type { FastifyRequest } from 'fastify';
import { isRemoved } from '../core/deprecation.ts';
import { ApiError } from '../core/errors.ts';
import { hostOf } from '../http/hosts.ts';
import type { App } from '../http/operation.ts';
import { createPageLimit, createRateReader } from '../http/rate-limit.ts';
import { createAttempts } from './attempts.ts';
import { installForms } from './forms.ts';
import { createPages, ownPage } from './pages.ts';
import { type Cost, createPasswords } from './passwords.ts';
import { createSessions } from './session.ts';
import { createTrail } from './trail.ts';

export interface AccountOptions {
  /** Of hashes. Default: what OWASP recommends. */
  passwordCost?: Cost | undefined;
}

/** What the routes of the account pages share. */
export type AccountScope = Awaited<ReturnType<typeof createAccountScope>>;

const plainHttp =
  'an account page was refused over plain http: name the proxy that ends TLS in TRUST_PROXY, and let it send X-Forwarded-Proto: https alone';

/** Characters of X-Forwarded-Proto, which anybody can send: fewer than a key or a token has. */
const maxLogged = 20;

/** Prepares the scope `app` for the routes of the account pages. */
export async function createAccountScope(app: App, options: AccountOptions) {
  const { config, log, metrics, now, store } = app;
  const removed = () => isRemoved(now(), config.enforceSunset);
  const { baseUrl } = config;
  const address = baseUrl === undefined ? undefined : new URL(baseUrl);
  const secure = address?.protocol === 'https:';
  // The session's cookie is not encoded. By default an error is thrown and caught for each cookie that is encoded wrongly. The type lacks `decode`.
  const parseOptions: object = { decode: (value: string) => value };
  await app.register(cookie, { parseOptions });
  installForms(app);
  const rootPath = address?.pathname.slice(0, -'/v1'.length) ?? '';
  const sessions = createSessions(app, address);
  const pages = createPages(app, rootPath);
  const countPage = createPageLimit(app, ({ session }) => session?.account.id);

  let warned = false;
  app.addHook('onRequest', async (request) => {
    // Schemes and hosts have no case, and a proxy may write the default port (RFC 9110, section 4.2.3).
    const { origin } = address ?? URL.parse(`${request.protocol}://${hostOf(request.raw) ?? ''}`) ?? {};
    if (secure && request.protocol.toLowerCase() !== 'https') {
      const forwardedProto = request.headers['x-forwarded-proto']?.slice(0, maxLogged);
      if (!warned) log.warn({ forwardedProto }, plainHttp);
      warned = true;
      throw new ApiError('forbidden', `This page is only available over https, at ${origin}${pages.path('')}.`);
    }
    if (request.method === 'POST' && !isSameOrigin(request, origin))
      throw new ApiError('forbidden', 'This form was not sent from a page of this service.');
    await sessions.find(request);
    // Before all that costs more than to look up a session.
    await countPage(request);
  });
  // For the hooks of this scope and its error pages. request-checks.ts sends the 404 of other methods itself, before a body is read.
  app.setNotFoundHandler(noPage);
  app.route({ method: ['GET', 'HEAD'], url: '/*', config: { isUnknown: true }, onRequest: noPage, handler: noPage });
  const passwords = createPasswords(options.passwordCost);
  const attempts = createAttempts(passwords);
  const record = createTrail(log, metrics);
  const rateOf = createRateReader(app);
  return { ...store, ...config, now, removed, record, passwords, attempts, sessions, pages, rateOf };
}

/**
 * Rejects forms of other sites (cross-site request forgery). Browsers send Sec-Fetch-Site to https addresses and to this machine (Fetch
 * Metadata, section 2.2). Otherwise Origin must be `origin`.
 */
function isSameOrigin({ headers }: FastifyRequest, origin = ''): boolean {
  const site = headers['sec-fetch-site'];
  return site === undefined ? /^http/.test(origin) && headers.origin === origin : site === 'same-origin';
}

/** For people: the server's own response to an unknown path describes the API. */
export function noPage(): never {
  throw new ApiError('route_not_found', 'There is no such page.');
}

/** Redirects requests for a page without a session to the sign-in page, which leads back, before their body is read. */
export function requireSession(app: App, { pages, sessions }: AccountScope): void {
  app.addHook('onRequest', async (request, reply) => {
    if (request.session) return;
    const { done } = request.query as { done?: unknown };
    // A form's address leads to its page.
    const to = ownPage(request.url.slice(app.prefix.length).split('?')[0]);
    const reason = sessions.isGiven(request) ? 'done=ended' : done === 'signed-in' ? 'done=no-cookie' : '';
    const query = [to && `to=${to}`, reason].filter(Boolean).join('&');
    return pages.redirect(reply, query ? `/sign-in?${query}` : '/sign-in');
  });
}
