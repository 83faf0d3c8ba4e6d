/** API keys at the door: a bearer key that is known, of this deployment, and neither expired nor revoked. */
import bearerAuth from '@fastify/bearer-auth';
import type { FastifyInstance, FastifyRequest, onRequestHookHandler } from 'fastify';
import { type Accounts, type ApiKey, hashKey, isKeyOf, refusal, type Scope } from '../accounts.ts';
import { type ErrorCode, Failure } from '../errors.ts';
import type { KeyUses } from './key-uses.ts';

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
}

const realm = 'Bearer realm="animal-store"';

// RFC 6750, section 2.1, with the case-insensitive scheme of RFC 9110, section 11.1. The plugin would trim more than spaces.
const bearer = /^bearer +[\x21-\x7e]+$/i;

/** Protects every route of `app`'s scope; 401 comes before anything is read of a body. */
export async function installAuth(app: FastifyInstance, { accounts, live, now, uses }: AuthOptions): Promise<void> {
  app.decorateRequest('apiKey', null);
  app.decorateRequest('keyRefusal', null);

  /** RFC 6750, section 3.1: a request that presented no bearer token gets the bare challenge. */
  async function open(key: string, request: FastifyRequest): Promise<boolean> {
    request.keyRefusal = 'invalid_api_key';
    if (!bearer.test(request.headers.authorization as string) || !isKeyOf(live, key)) return false;
    const found = await accounts.findKey(hashKey(key));
    if (!found) return false;
    request.keyRefusal = refusal(found, now()) ?? null;
    if (request.keyRefusal) return false;
    request.apiKey = found;
    uses.count(found);
    return true;
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
    verify(request, reply, (error) => done(error && refused(request, error)));
  });
}

function refused(request: FastifyRequest, error: Error): Error {
  const code = request.keyRefusal;
  if (code) return new Failure(code, undefined, { headers: { 'www-authenticate': `${realm}, error="invalid_token"` } });
  const unread = String((error as { code?: unknown }).code).startsWith('FST_BEARER_AUTH');
  return unread ? new Failure('missing_api_key', undefined, { headers: { 'www-authenticate': realm } }) : error;
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
