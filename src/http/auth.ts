/** Authenticates requests: the API key must be known, belong to this deployment, and be neither expired nor revoked. */
import bearerAuth, { type verifyBearerAuth } from '@fastify/bearer-auth';
import type { FastifyInstance, FastifyRequest, onRequestHookHandler } from 'fastify';
import { LRUCache } from 'lru-cache';
import { type ApiKey, hashKey, isKeyOf, type KnownKey, rejectionReason, type Scope } from '../core/accounts.ts';
import type { ErrorCode } from '../core/errors.ts';
import { chargeConnection } from './connection/connection.ts';
import { sendError } from './errors.ts';
import { HttpError } from './http-error.ts';
import { createAccountLimit, createRefusals } from './limits.ts';
import { holderOfAccount } from './shares.ts';

declare module 'fastify' {
  interface FastifyRequest {
    apiKey: ApiKey | null;
    keyRefusal: ErrorCode | null;
  }
}

/** The API key of a request in a scope that requires one. */
export function keyOf({ apiKey }: FastifyRequest): ApiKey {
  return apiKey as ApiKey;
}

/** Recently verified API keys, indexed by the Authorization header in its usual form, so that each key has one entry. */
export interface KeyCache {
  recall(authorization: string): KnownKey | undefined;
  remember(authorization: string, key: KnownKey): void;
  markValid(authorization: string, key: KnownKey): void;
  /** The key, if it was valid when it was last looked up. Its sender is then not guessing keys. */
  lastValid(authorization: string | undefined): KnownKey | undefined;
  forget(authorization: string): void;
  close(): void;
}

/** A revocation must take effect within a second, in every process. */
const knownForMs = 500;

/** API keys that are remembered. */
const maxKnown = 10_000;

/** The cache is emptied twice a second, so a busy client costs two look-ups a second. */
export function createKeyCache(): KeyCache {
  const known = new Map<string, KnownKey>();
  const valid = new LRUCache<string, KnownKey>({ max: maxKnown });
  const timer = setInterval(() => known.clear(), knownForMs).unref();
  return {
    recall: (authorization) => known.get(authorization),
    remember(authorization, key) {
      if (known.size >= maxKnown) known.clear();
      known.set(authorization, key);
    },
    markValid: (authorization, key) => void valid.set(authorization, key),
    lastValid: (authorization = '') =>
      valid.peek(authorization) ?? valid.peek(authorization.replace(/^bearer +/i, 'Bearer ')),
    forget: (authorization) => void valid.delete(authorization),
    close: () => clearInterval(timer),
  };
}

const realm = 'Bearer realm="animal-store"';

// RFC 6750, section 2.1, with the case-insensitive scheme of RFC 9110, section 11.1. The plugin alone would trim other whitespace, too.
const bearer = /^bearer +[\x21-\x7e]+$/i;

/** Requires an API key for every route in the scope of `app`. A 401 is sent before the request body is read. */
export async function requireKey(app: FastifyInstance): Promise<void> {
  const { clock, keys: cache, shares, store } = app;
  const { live } = app.config;
  const countRefusal = createRefusals(app);
  const { pattern: ofOthers, message: belongsElsewhere } = otherDeployments[live ? 'production' : 'others'];
  app.decorateRequest('apiKey', null);
  app.decorateRequest('keyRefusal', null);

  function checkKey(found: KnownKey | undefined, request: FastifyRequest): boolean {
    request.keyRefusal = found ? (rejectionReason(found, clock()) ?? null) : 'invalid_api_key';
    if (!found || request.keyRefusal) return false;
    request.apiKey = found;
    const { record } = request;
    record.key = found.id;
    record.holder = holderOfAccount(found.accountId, found.network);
    chargeConnection(record.connection, record.holder, shares);
    return true;
  }

  async function lookUp(key: string, request: FastifyRequest): Promise<boolean> {
    const { authorization: sent = '' } = request.headers;
    if (!bearer.test(sent) || !isKeyOf(live, key)) return checkKey(undefined, request);
    const authorization = `Bearer ${key}`;
    const known = cache.recall(authorization);
    if (known) return checkKey(known, request);
    const wasValid = cache.lastValid(authorization) !== undefined;
    const find = async () => {
      const begun = performance.now();
      const found = await store.accounts.findKey(hashKey(key), wasValid);
      const isValid = checkKey(found, request);
      if (isValid && found) cache.markValid(authorization, found);
      else cache.forget(authorization);
      // Do not cache the result of a slow look-up: the key may have been revoked meanwhile.
      if (isValid && found && performance.now() - begun < knownForMs) cache.remember(authorization, found);
      return isValid;
    };
    if (wasValid) return find();
    return shares.during(request.record.network, 'lookUps', find);
  }

  await app.register(bearerAuth, {
    addHook: false,
    keys: new Set<string>(),
    auth: lookUp,
    specCompliance: 'rfc6749',
    verifyErrorLogLevel: 'debug',
  });

  const verify = app.getDecorator<verifyBearerAuth>('verifyBearerAuth');
  app.addHook('onRequest', (request, reply, done) => {
    const { authorization } = request.headers;
    // Send it directly: Fastify's error handling would double the cost of this response.
    if (authorization === undefined) return sendError(missing, request, reply);
    // The plugin verified this key at most half a second ago. It returns a promise, which costs a third of a read.
    const known = cache.recall(authorization);
    if (known && checkKey(known, request)) return done();
    verify(request, reply, (pluginError) => {
      if (request.apiKey) return done();
      const error =
        request.keyRefusal && ofOthers.test(authorization)
          ? rejectedKey(request.keyRefusal, belongsElsewhere)
          : authError(request, pluginError as Error);
      if (!request.keyRefusal) return done(error);
      countRefusal(request).then((exceeded) => done(exceeded ?? error), done);
    });
  });
  const limitAccounts = createAccountLimit(app);
  if (limitAccounts) app.addHook('onRequest', limitAccounts);
}

// RFC 6750, section 3.1: a request without a bearer token gets a challenge without an error code. The error is created once because
// capturing a stack trace costs more than the rest of a 401.
const missing = new HttpError('missing_api_key', { 'www-authenticate': realm });

/** The 401 for a key that was sent but is rejected. */
export function rejectedKey(code: ErrorCode, message?: string): HttpError {
  return new HttpError(code, { 'www-authenticate': `${realm}, error="invalid_token"` }, message);
}

/** By its prefix alone, a key is one of another deployment: whether it exists there stays unknown. */
const otherDeployments = {
  production: {
    pattern: /^bearer +ast_test_/i,
    message: 'The API key is not one of production: keys of production start with ast_live_.',
  },
  others: {
    pattern: /^bearer +ast_live_/i,
    message: 'The API key is one of production, and this is another deployment: its keys start with ast_test_.',
  },
};

function authError({ keyRefusal }: FastifyRequest, pluginError: Error & { code?: unknown }): Error {
  if (keyRefusal) return rejectedKey(keyRefusal);
  return String(pluginError.code).startsWith('FST_BEARER_AUTH') ? missing : pluginError;
}

/** Returns a hook that rejects API keys without `scope` (RFC 6750, section 3.1, insufficient_scope). */
export function requireScope(scope: Scope): onRequestHookHandler {
  const challenge = `${realm}, error="insufficient_scope", scope="${scope}"`;
  return (request, _reply, done) => {
    if (request.apiKey?.scopes.includes(scope)) return done();
    const message = `The API key lacks the scope ${scope}.`;
    done(new HttpError('insufficient_scope', { 'www-authenticate': challenge }, message));
  };
}
