/** API keys: a bearer key that is known, of this deployment, and neither expired nor revoked. */
import bearerAuth from '@fastify/bearer-auth';
import type { FastifyInstance, FastifyRequest, onRequestHookHandler } from 'fastify';
import { type Accounts, type ApiKey, hashKey, isKeyOf, rejectionReason, type Scope } from '../accounts.ts';
import type { ErrorCode } from '../errors.ts';
import { HttpError, type SendError } from './errors.ts';
import type { KeyUsage } from './key-usage.ts';
import type { CountRefusal } from './limits.ts';

declare module 'fastify' {
  interface FastifyRequest {
    apiKey: ApiKey | null;
    keyRefusal: ErrorCode | null;
  }
}

export interface AuthOptions {
  accounts: Accounts;
  /** Whether this deployment is production, whose keys start `ast_live_`. */
  live: boolean;
  now: () => Date;
  usage: KeyUsage;
  cache: KeyCache;
  countRefusal: CountRefusal;
  sendError: SendError;
}

/** The keys that were looked up of late, by the Authorization header that carried them. */
export interface KeyCache {
  recall(authorization: string): ApiKey | undefined;
  remember(authorization: string, key: ApiKey): void;
}

/** A revocation takes effect within a second, on every process. */
const knownForMs = 500;
const maxKnown = 10_000;

/** Forgets everything twice a second, and for good when `app` closes: a busy client costs two look-ups a second. */
export function createKeyCache(app: FastifyInstance): KeyCache {
  const known = new Map<string, ApiKey>();
  const timer = setInterval(() => known.clear(), knownForMs).unref();
  app.addHook('onClose', async () => clearInterval(timer));
  return {
    recall: (authorization) => known.get(authorization),
    remember(authorization, key) {
      if (known.size >= maxKnown) known.clear();
      known.set(authorization, key);
    },
  };
}

const realm = 'Bearer realm="animal-store"';

// RFC 6750, section 2.1, with the case-insensitive scheme of RFC 9110, section 11.1. The plugin would trim more than spaces.
const bearer = /^bearer +[\x21-\x7e]+$/i;

/** Protects every route of `app`'s scope; 401 comes before anything is read of a body. */
export async function installAuth(app: FastifyInstance, options: AuthOptions): Promise<void> {
  const { accounts, live, now, usage, cache, countRefusal, sendError } = options;
  app.decorateRequest('apiKey', null);
  app.decorateRequest('keyRefusal', null);

  function checkKey(found: ApiKey | undefined, request: FastifyRequest): boolean {
    const at = now();
    request.keyRefusal = found ? (rejectionReason(found, at) ?? null) : 'invalid_api_key';
    if (!found || request.keyRefusal) return false;
    request.apiKey = found;
    request.exchange.key = found.id;
    request.exchange.holder = found.id;
    usage.count(found, at);
    return true;
  }

  async function lookUp(key: string, request: FastifyRequest): Promise<boolean> {
    const authorization = request.headers.authorization as string;
    if (!bearer.test(authorization) || !isKeyOf(live, key)) return checkKey(undefined, request);
    const begun = performance.now();
    const found = await accounts.findKey(hashKey(key));
    // What took longer to read may have been revoked since.
    if (found && performance.now() - begun < knownForMs) cache.remember(authorization, found);
    return checkKey(found, request);
  }

  await app.register(bearerAuth, {
    addHook: false,
    keys: new Set<string>(),
    auth: lookUp,
    specCompliance: 'rfc6749',
    verifyErrorLogLevel: 'debug',
  });

  const verify = app.verifyBearerAuth as NonNullable<typeof app.verifyBearerAuth>;
  app.addHook('onRequest', (request, reply, done) => {
    const { authorization } = request.headers;
    // At once: Fastify's way of errors would cost as much again.
    if (authorization === undefined) return sendError(missing, request, reply);
    // What the plugin has verified half a second ago at most; it answers through a promise, which costs a third of a read.
    const known = cache.recall(authorization);
    if (known && checkKey(known, request)) return done();
    verify(request, reply, (error) => {
      if (request.apiKey) return done();
      const failure = refused(request, error as Error);
      if (!request.keyRefusal) return done(failure);
      countRefusal(request).then((exceeded) => done(exceeded ?? failure), done);
    });
  });
}

// RFC 6750, section 3.1: a request that presented no bearer token gets the bare challenge. Made once, as taking a stack costs
// more than all the rest of a 401.
const missing = new HttpError('missing_api_key', { 'www-authenticate': realm });

function refused({ keyRefusal }: FastifyRequest, error: Error): Error {
  if (keyRefusal) {
    return new HttpError(keyRefusal, { 'www-authenticate': `${realm}, error="invalid_token"` });
  }
  return String((error as { code?: unknown }).code).startsWith('FST_BEARER_AUTH') ? missing : error;
}

/** A route's own demand on the key (RFC 6750, section 3.1, insufficient_scope). */
export function requireScope(scope: Scope): onRequestHookHandler {
  const challenge = `${realm}, error="insufficient_scope", scope="${scope}"`;
  return (request, _reply, done) => {
    if (request.apiKey?.scopes.includes(scope)) return done();
    const message = `The API key lacks the scope ${scope}.`;
    done(new HttpError('insufficient_scope', { 'www-authenticate': challenge }, message));
  };
}
