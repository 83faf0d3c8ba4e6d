/** The preconditions If-Match and If-None-Match (RFC 9110, section 13.1). No resource has a time of modification, so there are no others. */
import type { IncomingHttpHeaders } from 'node:http';
import type { preHandlerHookHandler } from 'fastify';
import fp from 'fastify-plugin';
import { ApiError } from '../core/errors.ts';

/** The members of a list of entity-tags. The W of a weak one is a capital letter (section 8.8.3). */
const entityTags = /(?<![^\s,])(?:W\/)?"[\x21\x23-\x7e\x80-\xff]*"(?![^\s,])/g;

const isAny = (field: string) => field.trim() === '*';

/** Whether a field is *, or lists an entity-tag that `matches`. */
const names = (field: string, matches: (tag: string) => boolean) =>
  isAny(field) || (field.match(entityTags)?.some(matches) ?? false);

/**
 * Whether the client already has what GET or HEAD would send, so that the response is 304. `etag` is a strong entity-tag. Throws ApiError
 * `precondition_failed` if If-Match does not hold, which comes first (section 13.2.2).
 */
export function isCurrent(
  { 'if-match': ifMatch, 'if-none-match': ifNoneMatch }: IncomingHttpHeaders,
  etag: string,
): boolean {
  // Strong comparison.
  if (ifMatch !== undefined && !names(ifMatch, (tag) => tag === etag)) throw new ApiError('precondition_failed');
  // Weak comparison.
  return ifNoneMatch !== undefined && names(ifNoneMatch, (tag) => tag === etag || tag === `W/${etag}`);
}

/**
 * Whether the preconditions of a POST hold. `exists`: whether its path can be read, too. An entity-tag is that of one page or animal and says
 * nothing of the collection to which POST adds, so none in a list matches.
 */
function holds({ 'if-match': ifMatch, 'if-none-match': ifNoneMatch }: IncomingHttpHeaders, exists: boolean): boolean {
  if (ifMatch !== undefined && !(exists && isAny(ifMatch))) return false;
  return !exists || ifNoneMatch === undefined || !isAny(ifNoneMatch);
}

/**
 * Rejects each POST whose preconditions do not hold, before it changes anything. By then, the key and the content are valid: if the status were
 * neither 2xx nor 412 without the preconditions, they are not evaluated (section 13.2.1).
 */
export const preconditions = fp(async (app) => {
  const readable = new Set<string>();
  app.addHook('onRoute', (route) => {
    if (route.method === 'GET') readable.add(route.url);
    if (route.method !== 'POST') return;
    const check: preHandlerHookHandler = ({ headers }, _reply, done) =>
      done(holds(headers, readable.has(route.url)) ? undefined : new ApiError('precondition_failed'));
    route.preHandler = [check, ...[route.preHandler ?? []].flat()];
  });
});
