// Traces of the animal store by the packages of OpenTelemetry, whose standard settings (OTEL_…) configure them. `node --import` loads this file.
// docs/operations.md, "Traces", says how to install the packages.
import { subscribe } from 'node:diagnostics_channel';
import { createRequire } from 'node:module';
import { setTimeout } from 'node:timers/promises';
import { isMainThread } from 'node:worker_threads';

/** Monitoring asks the ops port every few seconds. */
const isIgnored = ({ url }) => /^\/(livez|readyz|metrics)$/.test(url);

/** As in the log, only the route stands for the path: one-time links are secrets, and clients can send anything. */
const hidePath = (span) => span.setAttributes({ 'url.path': '', 'url.query': '' });

/** Some proxies append a port to the address of their client. */
const withoutPort = (address) => address.replace(/^(?:\[(.*)\]|([\d.]+))(?::\d+)?$/, '$1$2');

async function start() {
  const { trace } = await import('@opentelemetry/api');
  const { HttpInstrumentation } = await import('@opentelemetry/instrumentation-http');
  const { PgInstrumentation } = await import('@opentelemetry/instrumentation-pg');
  const { NodeSDK } = await import('@opentelemetry/sdk-node');
  const instrumentations = [
    new HttpInstrumentation({ ignoreIncomingRequestHook: isIgnored, requestHook: hidePath }),
    new PgInstrumentation({ requireParentSpan: true }),
  ];
  const sdk = new NodeSDK({ instrumentations });
  sdk.start();
  // Sends the last spans. The server does not wait longer for a receiver that hangs.
  let ended;
  const end = () => {
    ended ??= Promise.race([sdk.shutdown().catch(() => {}), setTimeout(2000, undefined, { ref: false })]);
    return ended;
  };

  // The instrumentation of HTTP does not know the routes of Fastify, and believes any X-Forwarded-For.
  subscribe('fastify.initialization', ({ fastify }) => {
    fastify.addHook('onClose', end);
    fastify.addHook('onRequest', (request, _reply, done) => {
      const span = trace.getActiveSpan()?.setAttribute('client.address', withoutPort(request.ip));
      const { url } = request.routeOptions;
      if (span && url !== undefined) span.setAttribute('http.route', url).updateName(`${request.method} ${url}`);
      done();
    });
  });

  // Only what `require` loads is instrumented. The server then imports the same module.
  createRequire(import.meta.url)('pg');
}

// SQLite's writer thread has nothing to trace.
if (isMainThread) await start();
