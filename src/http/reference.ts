/** The OpenAPI documents, served without a key; this server's own address stands first among their servers. */
import { parse, stringify } from 'yaml';
import type { App } from './app-type.ts';
import type { Exchanges } from './exchange.ts';
import { refuseOtherMethods } from './methods.ts';
import { type Rendered, render, sendRendered } from './responses.ts';

export interface ReferenceOptions {
  /** The committed document, as YAML. */
  document: string;
  /** The address under which this server serves what the document describes. */
  base: string;
  exchanges: Exchanges;
}

export function referenceRoutes(app: App, { document, base, exchanges }: ReferenceOptions): void {
  let cached: { json: Rendered; yaml: Rendered } | undefined;

  /** Made on the first request: parsing would be a third of the time to start. */
  function documents(): { json: Rendered; yaml: Rendered } {
    if (cached) return cached;
    const openapi = parse(document) as { servers: { url: string; description: string }[] };
    openapi.servers.unshift({ url: base, description: 'This server' });
    // RFC 9512, section 2.1.
    const yaml = render(stringify(openapi), { type: 'application/yaml' });
    cached = { json: render(JSON.stringify(openapi, null, 2)), yaml };
    return cached;
  }

  app.get('/openapi.json', (_request, reply) => sendRendered(exchanges, reply, documents().json));
  app.get('/openapi.yaml', (_request, reply) => sendRendered(exchanges, reply, documents().yaml));
  refuseOtherMethods(app, '/openapi.json', ['GET', 'HEAD']);
  refuseOtherMethods(app, '/openapi.yaml', ['GET', 'HEAD']);
}
