/** Sessions of the account pages: the cookie that carries one, and the look-up of the person who sent it. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Account } from '../core/accounts.ts';
import { ApiError, codeOf } from '../core/errors.ts';
import { limits } from '../core/limits.ts';
import { hashToken, newToken, type Person, type Session } from '../core/people.ts';
import { hostOf } from '../http/hosts.ts';
import { FormError } from './forms.ts';

declare module 'fastify' {
  interface FastifyRequest {
    session: OwnSession | null;
  }
}

/** The session of a request, and the SHA-256 of its token. */
export interface OwnSession extends Session {
  hash: Buffer;
}

const passwordChanged = 'The password was changed at this moment: sign in with the new one.';

/** The session of a request that `requireSession` let through. */
export function sessionOf({ session }: FastifyRequest): OwnSession {
  return session as OwnSession;
}

/** The page of a form may still show the account of an earlier session of this browser. Throws FormError if `shown` is another than `name`. */
export function refuseOther(shown: string | undefined, { name }: Account): void {
  if (shown !== undefined && shown !== name)
    throw new FormError([{ text: `This page was open for the account ${shown}, but you are signed in as ${name}.` }]);
}

/** One write a minute is exact enough for an idle time of an hour. */
const touchEveryMs = 60_000;

/** `address`: the public one, if it is known. If it is https, the cookie is never sent over plain http. */
export function createSessions(app: FastifyInstance, address: URL | undefined) {
  const { now, store } = app;
  const { people } = store;
  app.decorateRequest('session', null);
  const secure = address?.protocol === 'https:';

  /**
   * Browsers accept the prefix __Host- only on a cookie of this host alone, set over https (RFC 6265bis, section 4.1.3.2). Cookies have no port: without
   * it in the name, two servers on one host would end each other's sessions.
   */
  function nameFor({ raw, protocol }: FastifyRequest): string {
    if (secure) return '__Host-session';
    const { port } = address ?? URL.parse(`${protocol}://${hostOf(raw) ?? ''}`) ?? {};
    return `session-${port || 80}`;
  }

  const attributes = { path: '/', httpOnly: true, sameSite: 'lax', secure } as const;

  const tokenOf = (request: FastifyRequest) => request.cookies[nameFor(request)];
  async function endGiven({ session }: FastifyRequest): Promise<void> {
    if (session) await people.endSession(session.hash);
  }

  return {
    /** Whether the request has a cookie of a session, which may have ended. */
    isGiven: (request: FastifyRequest) => tokenOf(request) !== undefined,

    /** Looks up the session of the request's cookie, and stores it in `request.session`. */
    async find(request: FastifyRequest): Promise<void> {
      const hash = hashToken(tokenOf(request) ?? '');
      const session = hash && (await people.findSession(hash));
      if (!session) return;
      request.session = { ...session, hash };
      // Records that it was used now. On a full disk the store can be read but not written to, and pages are still shown: if the use is not
      // recorded, the session only ends earlier.
      if (now().getTime() - session.usedAt.getTime() >= touchEveryMs)
        await people.touchSession(hash).catch((error: unknown) => {
          if (codeOf(error) !== 'service_unavailable') throw error;
        });
    },

    /** Begins a session and sets its cookie. Any session that the request carried ends, so that nobody can choose another's (session fixation). */
    async begin(request: FastifyRequest, reply: FastifyReply, { account, passwordHash }: Person): Promise<void> {
      await endGiven(request);
      const { token, hash } = newToken();
      if (!(await people.addSession(hash, account.id, passwordHash))) throw new ApiError('forbidden', passwordChanged);
      reply.setCookie(nameFor(request), token, { ...attributes, maxAge: limits.sessionLifetimeMs / 1000 });
    },

    /** Ends the session of the request's cookie, and removes the cookie. */
    async end(request: FastifyRequest, reply: FastifyReply): Promise<void> {
      await endGiven(request);
      reply.clearCookie(nameFor(request), attributes);
    },
  };
}
