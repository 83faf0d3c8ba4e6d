/** API keys at the door: a bearer key that is known, of this deployment, and neither expired nor revoked. */
import bearerAuth from '@fastify/bearer-auth';
import type { FastifyInstance, FastifyRequest, onRequestHookHandler } from 'fastify';
import { type Accounts, type ApiKey, hashKey, isKeyOf, refusal, type Scope } from '../accounts.ts';
import { type ErrorCode, Failure } from '../errors.ts';
import type { KeyUses } from './key-uses.ts';
import type { Keyring } from './keyring.ts';
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
  uses: KeyUses;
  keyring: Keyring;
  countRefusal: CountRefusal;
}

const realm = 'Bearer realm="animal-store"';

// RFC 6750, section 2.1, with the case-insensitive scheme of RFC 9110, section 11.1. The plugin would trim more than spaces.
const bearer = /^bearer +[\x21-\x7e]+$/i;

/** Protects every route of `app`'s scope; 401 comes before anything is read of a body. */
export async function installAuth(app: FastifyInstance, options: AuthOptions): Promise<void> {
  const { accounts, live, now, uses, keyring, countRefusal } = options;
  app.decorateRequest('apiKey', null);
  app.decorateRequest('keyRefusal', null);

  function judge(found: ApiKey | undefined, request: FastifyRequest): boolean {
    request.keyRefusal = found ? (refusal(found, now()) ?? null) : 'invalid_api_key';
    if (!found || request.keyRefusal) return false;
    request.apiKey = found;
    uses.count(found);
    return true;
  }

  function open(key: string, request: FastifyRequest): boolean | Promise<boolean> {
    const authorization = request.headers.authorization as string;
    const known = keyring.recall(authorization);
    if (known) return judge(known, request);
    if (!bearer.test(authorization) || !isKeyOf(live, key)) return judge(undefined, request);
    return accounts.findKey(hashKey(key)).then((found) => {
      if (found) keyring.remember(authorization, found);
      return judge(found, request);
    });
  }

  await app.register(bearerAuth, {
    addHook: false,
    keys: new Set<string>(),
    auth: open,
    specCompliance: 'rfc6749',
    verifyErrorLogLevel: 'debug',
  });

  const verify = app.verifyBearerAuth as NonNullable<typeof app.verifyBearerAuth>;
  app.addHook('onRequest', (request, reply, done) => {
    if (request.headers.authorization === undefined) return done(missing);
    verify(request, reply, (error) => {
      const failure = error && refused(request, error);
      if (!request.keyRefusal) return done(failure);
      countRefusal(request).then((exceeded) => done(exceeded ?? failure), done);
    });
  });
}

// RFC 6750, section 3.1: a request that presented no bearer token gets the bare challenge. Made once, as taking a stack costs
// more than all the rest of a 401.
export const missing = new Failure('missing_api_key', undefined, { headers: { 'www-authenticate': realm } });

function refused({ keyRefusal }: FastifyRequest, error: Error): Error {
  if (keyRefusal) {
    return new Failure(keyRefusal, undefined, { headers: { 'www-authenticate': `${realm}, error="invalid_token"` } });
  }
  return String((error as { code?: unknown }).code).startsWith('FST_BEARER_AUTH') ? missing : error;
}

/** A route's own demand on the key (RFC 6750, section 3.1, insufficient_scope). */
export function requireScope(scope: Scope): onRequestHookHandler {
  const challenge = `${realm}, error="insufficient_scope", scope="${scope}"`;
  return (request, _reply, done) => {
    const allowed = request.apiKey?.scopes.includes(scope);
    const message = `The API key lacks the scope ${scope}.`;
    done(
      allowed ? undefined : new Failure('insufficient_scope', message, { headers: { 'www-authenticate': challenge } }),
    );
  };
}
