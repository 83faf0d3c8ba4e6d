/** CORS, by @fastify/cors: which pages may call the API from a browser. Credentials are not allowed: pages set Authorization themselves. */
import corsPlugin from '@fastify/cors';
import fp from 'fastify-plugin';

const exposedHeaders = [
  'Accept-Encoding',
  'Allow',
  'Deprecation',
  'ETag',
  'Idempotent-Replayed',
  'Link',
  'Location',
  'RateLimit-Limit',
  'RateLimit-Remaining',
  'RateLimit-Reset',
  'Retry-After',
  'Sunset',
  'WWW-Authenticate',
  'X-Request-Id',
].join(', ');

/** As browsers send it: in lower case, without the default port. Of an app's, such as capacitor://localhost, URL would make 'null'. */
const originOf = (text: string) => (/^https?:/i.test(text) ? new URL(text).origin : text.toLowerCase());

/**
 * Adds the headers to each response to a page of `corsOrigins`, and answers preflight requests, which may name any headers: tracing adds its own. An OPTIONS
 * request without Origin or Access-Control-Request-Method is no preflight (Fetch Standard, section 3.3.2): it is routed like any other request.
 */
export const cors = fp(async (app) => {
  const { corsOrigins } = app.config;
  if (!corsOrigins) return;
  const allowed = new Set(corsOrigins.map(originOf));
  await app.register(corsPlugin, {
    delegator({ headers }, done) {
      const { origin = '', 'access-control-request-method': method } = headers;
      done(null, {
        origin: allowed.has(origin) && origin,
        exposedHeaders,
        preflight: method !== undefined,
        // A day, in seconds.
        maxAge: 86_400,
      });
    },
  });
});
