/** Sessions of the account pages: the cookie that carries one, and the look-up of the person who sent it. */
import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto';
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

/** For how long a browser keeps what the page after a form shows once. */
const keptSeconds = 60;

const cipher = 'aes-256-gcm';
const ivBytes = 12;
const tagBytes = 16;

/** Only who has the token of the session can read what is sealed with this key. */
const sealingKey = (token: string) => Buffer.from(hkdfSync('sha256', token, '', 'shown once', 32));

function seal(token: string, text: string): string {
  const iv = randomBytes(ivBytes);
  const sealing = createCipheriv(cipher, sealingKey(token), iv);
  const sealed = Buffer.concat([sealing.update(text), sealing.final()]);
  return Buffer.concat([iv, sealing.getAuthTag(), sealed]).toString('base64url');
}

/** Undefined if it was sealed with another token, or changed. */
function unseal(token: string, text: string): string | undefined {
  const bytes = Buffer.from(text, 'base64url');
  if (bytes.length < ivBytes + tagBytes) return undefined;
  const opening = createDecipheriv(cipher, sealingKey(token), bytes.subarray(0, ivBytes));
  opening.setAuthTag(bytes.subarray(ivBytes, ivBytes + tagBytes));
  try {
    return Buffer.concat([opening.update(bytes.subarray(ivBytes + tagBytes)), opening.final()]).toString();
  } catch {
    return undefined;
  }
}

/** One write a minute is exact enough for an idle time of an hour. */
const touchEveryMs = 60_000;

/** `address`: the public one, if it is known. If it is https, the cookie is never sent over plain http. `path`: what comes before /account in it. */
export function createSessions(app: FastifyInstance, address: URL | undefined, path: string) {
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
  const kept = { ...attributes, path: `${path}/account`, sameSite: 'strict' } as const;

  const tokenOf = (request: FastifyRequest) => request.cookies[nameFor(request)];
  /** Beside that of the session, whose prefix allows no path. */
  const keptName = (request: FastifyRequest) =>
    secure ? '__Secure-once' : nameFor(request).replace('session', 'once');

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

    /** Lets the browser keep a text for one page: a redirect to it can then be loaded again without sending the form again. */
    keep(request: FastifyRequest, reply: FastifyReply, text: string): void {
      reply.setCookie(keptName(request), seal(tokenOf(request) ?? '', text), { ...kept, maxAge: keptSeconds });
    },

    /** The text that the browser kept, which it loses now. Undefined if there is none. */
    take(request: FastifyRequest, reply: FastifyReply): string | undefined {
      const text = unseal(tokenOf(request) ?? '', request.cookies[keptName(request)] ?? '');
      if (text !== undefined && request.method === 'GET') reply.setCookie(keptName(request), 'seen', kept);
      return text;
    },

    /** After the page that took a text. A cookie that changes makes browsers forget that page, which they could show again for Back. */
    forget(request: FastifyRequest, reply: FastifyReply): void {
      if (request.cookies[keptName(request)] !== 'seen') return;
      reply.clearCookie(keptName(request), kept);
    },

    /** Ends the session of the request's cookie, and removes the cookie. */
    async end(request: FastifyRequest, reply: FastifyReply): Promise<void> {
      await endGiven(request);
      reply.clearCookie(nameFor(request), attributes);
    },
  };
}
