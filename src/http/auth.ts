/** Authenticates requests: the API key must be known, belong to this deployment, and be neither expired nor revoked. */
import bearerAuth, { type verifyBearerAuth } from '@fastify/bearer-auth';
import type { FastifyRequest, onRequestHookHandler } from 'fastify';
import fp from 'fastify-plugin';
import {
  type ApiKey,
  hashKey,
  isKeyOf,
  type KeyRejection,
  type KnownKey,
  rejectionReason,
  type Scope,
} from '../core/accounts.ts';
import { codeOf, type ErrorCode } from '../core/errors.ts';
import { errorResponse, HttpError } from './errors.ts';
import { createRejectionLimit } from './rate-limit.ts';
import { createRecent } from './recent.ts';

/** The API key of a request in a scope that requires one. */
export function keyOf({ apiKey }: FastifyRequest): ApiKey {
  return apiKey as ApiKey;
}

/** A revocation must take effect within a second, in every process. */
const knownForMs = 500;

/** Maximum number of cached API keys: those that were looked up last. */
const maxKnown = 10_000;

export type KeyCache = ReturnType<typeof createKeyCache>;

/**
 * The API keys that were valid when they were last looked up, by the Authorization header in its usual form, so that each has one entry. A busy
 * client costs two look-ups a second.
 */
export function createKeyCache() {
  const known = createRecent<string, { key: KnownKey; askedAt: number }>(maxKnown);
  return {
    /** The key, and performance.now() before its look-up. Even an old entry shows that the client does not guess keys, so it need not wait with strangers. */
    find: (authorization = '') =>
      known.peek(authorization) ?? known.peek(authorization.replace(/^bearer +/i, 'Bearer ')),
    remember: (authorization: string, key: KnownKey, askedAt: number) => known.set(authorization, { key, askedAt }),
    forget: (authorization: string) => known.delete(authorization),
  };
}

const realm = 'Bearer realm="animal-store"';

// RFC 6750, section 2.1, with the case-insensitive scheme of RFC 9110, section 11.1. The plugin alone would trim other whitespace, too.
const bearer = /^bearer +[\x21-\x7e]+$/i;

// RFC 6750, section 3.1: a request without a bearer token gets a challenge without an error code. The error is created once because
// capturing a stack trace costs more than the rest of a 401.
const missing = new HttpError('missing_api_key', { 'www-authenticate': realm });
const missingResponse = errorResponse(missing);

/** The error of a request that has no token is the plugin's; any other is that of `verify`. */
const errorOf = (error: Error) => (codeOf(error).startsWith('FST_BEARER_AUTH') ? missing : error);

/** The 401 for a key that was sent but is rejected. */
export function rejectedKey(code: ErrorCode, message?: string): HttpError {
  return new HttpError(code, { 'www-authenticate': `${realm}, error="invalid_token"` }, message);
}

/** Requires an API key for every route in the scope of `app`. A 401 does not wait for the body. */
export const requireKey = fp<{ keys: KeyCache }>(async (app, { keys }) => {
  const { now, store } = app;
  const { live } = app.config;
  const limitRejections = createRejectionLimit(app);
  // A key of another deployment is rejected by its prefix alone, so that nobody learns whether it exists there.
  const ofOthers = live ? /^bearer +ast_test_/i : /^bearer +ast_live_/i;
  const belongsElsewhere = live
    ? 'The API key is not one of production: keys of production start with ast_live_.'
    : 'The API key is one of production, and this is another deployment: its keys start with ast_test_.';
  app.decorateRequest('apiKey', null);

  async function lookUp(key: string, request: FastifyRequest): Promise<KeyRejection | undefined> {
    const authorization = `Bearer ${key}`;
    const askedAt = performance.now();
    const found = await store.accounts.findKey(hashKey(key), keys.find(authorization) !== undefined);
    const rejection = found ? rejectionReason(found, now()) : 'invalid_api_key';
    if (found && !rejection) {
      request.apiKey = found;
      keys.remember(authorization, found, askedAt);
    } else keys.forget(authorization);
    return rejection;
  }

  /** Rejects with the error to send if the key is not accepted. */
  async function verify(key: string, request: FastifyRequest): Promise<true> {
    const { authorization = '' } = request.headers;
    const rejection = bearer.test(authorization) && isKeyOf(live, key) ? await lookUp(key, request) : 'invalid_api_key';
    if (!rejection) return true;
    await limitRejections(request);
    throw rejectedKey(rejection, ofOthers.test(authorization) ? belongsElsewhere : undefined);
  }

  await app.register(bearerAuth, { addHook: false, keys: [], auth: verify, specCompliance: 'rfc6749' });
  const verifyBearer = app.getDecorator<verifyBearerAuth>('verifyBearerAuth');
  app.addHook('onRequest', (request, reply, done) => {
    const { authorization } = request.headers;
    if (authorization === undefined) {
      // Fastify's error handling would double the cost of this response.
      request.errorCode = missing.code;
      return void reply.sendResponse(missingResponse);
    }
    // Not the plugin for a key that was verified at most half a second ago: it returns a promise, which costs a third of a read.
    const known = keys.find(authorization);
    if (known && performance.now() - known.askedAt < knownForMs && !rejectionReason(known.key, now())) {
      request.apiKey = known.key;
      done();
    } else {
      // Until now the request counted for its network, or for what the cache said of the key.
      verifyBearer(request, reply, (error) => done(error ? errorOf(error) : app.reserve(reply, 1)));
    }
  });
});

/** The 403 for an API key without `scope` (RFC 6750, section 3.1, insufficient_scope). */
export function missingScope(scope: Scope): HttpError {
  const challenge = `${realm}, error="insufficient_scope", scope="${scope}"`;
  return new HttpError(
    'insufficient_scope',
    { 'www-authenticate': challenge },
    `The API key lacks the scope ${scope}.`,
  );
}

/** Returns a hook that rejects API keys without `scope`. */
export function requireScope(scope: Scope): onRequestHookHandler {
  return (request, _reply, done) => {
    if (request.apiKey?.scopes.includes(scope)) return done();
    done(missingScope(scope));
  };
}
