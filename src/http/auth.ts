/** Authenticates requests: the API key must be known, belong to this deployment, and be neither expired nor revoked. */
import bearerAuth, { type verifyBearerAuth } from '@fastify/bearer-auth';
import type { FastifyInstance, FastifyRequest, onRequestHookHandler } from 'fastify';
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
import { chargeConnection } from './connection/connection.ts';
import { HttpError, sendError } from './errors.ts';
import { createAccountLimit, createRefusals } from './limits.ts';
import { createRecent } from './recent.ts';
import { holderOfAccount } from './shares.ts';

/** The API key of a request in a scope that requires one. */
export function keyOf({ apiKey }: FastifyRequest): ApiKey {
  return apiKey as ApiKey;
}

/** A revocation must take effect within a second, in every process. */
const knownForMs = 500;

/** API keys that are remembered: those that were looked up last. */
const maxKnown = 10_000;

export type KeyCache = ReturnType<typeof createKeyCache>;

/**
 * The API keys that were valid when they were last looked up, by the Authorization header in its usual form, so that each has one entry. A busy
 * client costs two look-ups a second.
 */
export function createKeyCache() {
  const known = createRecent<string, { key: KnownKey; askedAt: number }>(maxKnown);
  return {
    /** The key, and performance.now() before it was looked up. Whoever sends it is not guessing keys, however old the entry is. */
    find: (authorization = '') =>
      known.peek(authorization) ?? known.peek(authorization.replace(/^bearer +/i, 'Bearer ')),
    remember: (authorization: string, key: KnownKey, askedAt: number) => known.set(authorization, { key, askedAt }),
    forget: (authorization: string) => known.delete(authorization),
  };
}

const realm = 'Bearer realm="animal-store"';

// RFC 6750, section 2.1, with the case-insensitive scheme of RFC 9110, section 11.1. The plugin alone would trim other whitespace, too.
const bearer = /^bearer +[\x21-\x7e]+$/i;

/** Requires an API key for every route in the scope of `app`. A 401 is sent before the request body is read. */
export async function requireKey(app: FastifyInstance): Promise<void> {
  const { keys, now, shares, store } = app;
  const { live } = app.config;
  const countRefusal = createRefusals(app);
  // By its prefix alone, a key is one of another deployment: whether it exists there stays unknown.
  const ofOthers = live ? /^bearer +ast_test_/i : /^bearer +ast_live_/i;
  const belongsElsewhere = live
    ? 'The API key is not one of production: keys of production start with ast_live_.'
    : 'The API key is one of production, and this is another deployment: its keys start with ast_test_.';
  app.decorateRequest('apiKey', null);

  /** Charges the request to the account of the key, or returns why the key is rejected. */
  function accept(found: KnownKey | undefined, request: FastifyRequest): KeyRejection | undefined {
    const rejection = found ? rejectionReason(found, now()) : 'invalid_api_key';
    if (!found || rejection) return rejection;
    request.apiKey = found;
    const { record } = request;
    record.key = found.id;
    record.holder = holderOfAccount(found.accountId, found.network);
    chargeConnection(record.connection, record.holder, shares);
    return undefined;
  }

  async function lookUp(key: string, request: FastifyRequest): Promise<KeyRejection | undefined> {
    const authorization = `Bearer ${key}`;
    const wasValid = keys.find(authorization) !== undefined;
    const find = async () => {
      const askedAt = performance.now();
      const found = await store.accounts.findKey(hashKey(key), wasValid);
      const rejection = accept(found, request);
      if (found && !rejection) keys.remember(authorization, found, askedAt);
      else keys.forget(authorization);
      return rejection;
    };
    if (wasValid) return find();
    return shares.during(request.record.network, 'lookUps', find);
  }

  /** Rejects with the error to send if the key is not accepted. */
  async function verify(key: string, request: FastifyRequest): Promise<true> {
    const { authorization = '' } = request.headers;
    const rejection = bearer.test(authorization) && isKeyOf(live, key) ? await lookUp(key, request) : 'invalid_api_key';
    if (!rejection) return true;
    const message = ofOthers.test(authorization) ? belongsElsewhere : undefined;
    throw countRefusal(request) ?? rejectedKey(rejection, message);
  }

  await app.register(bearerAuth, { addHook: false, keys: [], auth: verify, specCompliance: 'rfc6749' });
  const verifyBearer = app.getDecorator<verifyBearerAuth>('verifyBearerAuth');
  app.addHook('onRequest', (request, reply, done) => {
    const { authorization } = request.headers;
    // Send it directly: Fastify's error handling would double the cost of this response.
    if (authorization === undefined) return sendError(missing, request, reply);
    // This key was verified at most half a second ago. The plugin returns a promise, which costs a third of a read.
    const known = keys.find(authorization);
    if (known && performance.now() - known.askedAt < knownForMs && !accept(known.key, request)) return done();
    // Then as many in a turn as it has time for: the answers to many look-ups arrive at once.
    verifyBearer(request, reply, (error) => (error ? done(errorOf(error)) : app.resume(request.raw, done)));
  });
  const limitAccount = createAccountLimit(app);
  if (limitAccount) app.addHook('onRequest', limitAccount);
}

// RFC 6750, section 3.1: a request without a bearer token gets a challenge without an error code. The error is created once because
// capturing a stack trace costs more than the rest of a 401.
const missing = new HttpError('missing_api_key', { 'www-authenticate': realm });

/** The error of a request that has no token is the plugin's; any other is that of `verify`. */
const errorOf = (error: Error) => (codeOf(error).startsWith('FST_BEARER_AUTH') ? missing : error);

/** The 401 for a key that was sent but is rejected. */
export function rejectedKey(code: ErrorCode, message?: string): HttpError {
  return new HttpError(code, { 'www-authenticate': `${realm}, error="invalid_token"` }, message);
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
