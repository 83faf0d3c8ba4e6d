/** Starts the whole HTTP server for one test, on its own port and with its own store. */
import { readFile } from 'node:fs/promises';
import type { AddressInfo } from 'node:net';
import { pino } from 'pino';
import { Agent, request as undiciRequest } from 'undici';
import { expect, onTestFinished, vi } from 'vitest';
import { type AppOptions, buildApp } from '../../src/app.ts';
import { newSecret, type Scope, scopes } from '../../src/core/accounts.ts';
import { createRequestLog } from '../../src/http/log.ts';
import { createMetrics, type Metrics } from '../../src/http/metrics.ts';
import { type Answer, expectDocumented } from './documented.ts';
import { borrowStore } from './store.ts';

export { temporaryFolder } from './store.ts';

interface CallOptions {
  /** API key for the Authorization header. Undefined: the test's own key; null: no header. */
  key?: string | null;
  headers?: Record<string, string | string[]>;
  /** Sent as JSON; a string or bytes are sent unchanged. */
  body?: unknown;
  type?: string | null;
}

export interface JsonAnswer extends Answer {
  // biome-ignore lint/suspicious/noExplicitAny: tests assert the fields that they read.
  json: any;
}

export type TestApp = Awaited<ReturnType<typeof startApp>>;

interface KeyOptions {
  scopes?: Scope[];
  expiresAt?: Date | null;
  account?: string;
  live?: boolean;
}

/** The values of a metric, by the value of its label. */
export async function valuesOf({ registry }: Metrics, name: string): Promise<Record<string, number>> {
  const { values = [] } = (await registry.getSingleMetric(`animal_store_${name}`)?.get()) ?? {};
  return Object.fromEntries(values.map(({ labels, value }) => [String(Object.values(labels)[0]), value]));
}

/** The value of a metric without labels. */
export async function metricValue({ registry }: Metrics, name: string): Promise<number | undefined> {
  return (await registry.getSingleMetric(`animal_store_${name}`)?.get())?.values[0]?.value;
}

/** Requests of one address that no test of another subject reaches. */
const many = 1_000_000;

/** Starts the server and stops it when the test ends. */
export async function startApp(options: Partial<AppOptions> = {}) {
  const { databaseUrl, store, now, setTime } = await borrowStore();
  const lines: string[] = [];
  const write = (line: string) => void lines.push(line);
  const logger = pino({ level: 'debug' }, { write });
  const metrics = createMetrics('test');
  const app = await buildApp({
    store,
    logger,
    logRequest: createRequestLog(write, '"pid":1'),
    now,
    live: false,
    quickstartBasePath: '/quickstart',
    enforceSunset: true,
    metrics,
    maxConnections: 10_000,
    draining: () => false,
    readFile: (name) => readFile(new URL(`../../${name}`, import.meta.url)),
    signUp: 'open',
    // vitest.config.ts: the project api-plain.
    plain: process.env.PLAIN === 'on',
    ...options,
    limits: { rejectedKeys: many, pages: many, pagesOfNetwork: many, ...options.limits },
  });
  await app.listen({ host: '127.0.0.1', port: 0 });
  const agent = new Agent({ keepAliveTimeout: 1000 });
  onTestFinished(async () => {
    await agent.close();
    await vi.waitFor(async () => {
      expect(await metricValue(metrics, 'in_flight')).toBe(0);
    }, 10_000);
    // Otherwise the server waits half a second for clients that have not read their refusal.
    app.server.closeAllConnections();
    await app.close();
  });

  const { port } = app.server.address() as AddressInfo;
  const url = `http://127.0.0.1:${port}`;
  await store.accounts.addAccount('tests');

  async function newKey(wanted: KeyOptions = {}) {
    const { scopes: granted = [...scopes], expiresAt = null, account = 'tests', live = options.live ?? false } = wanted;
    const secret = newSecret(live);
    const lifetimeMs = expiresAt && expiresAt.getTime() - now().getTime();
    const added = await store.accounts.addKey({ account, name: 'test', scopes: granted, lifetimeMs, secret });
    return { key: secret.key, id: added?.id as number };
  }
  const { key } = await newKey();

  async function call(method: string, target: string, options: CallOptions = {}): Promise<JsonAnswer> {
    const { key: other, headers = {}, body, type = 'application/json' } = options;
    const sent: Record<string, string | string[]> = { ...headers };
    if (other !== null) sent.authorization = `Bearer ${other ?? key}`;
    if (body !== undefined && type !== null) sent['content-type'] = type;
    const bytes =
      body === undefined || typeof body === 'string' || body instanceof Uint8Array ? body : JSON.stringify(body);
    const response = await undiciRequest(url + target, {
      method: method as 'GET',
      headers: sent,
      body: (bytes as string | undefined) ?? null,
      dispatcher: agent,
    });
    const text = await response.body.text();
    const answer = { status: response.statusCode, headers: response.headers, text };
    expectDocumented(method, target, answer);
    const isJson = text !== '' && String(response.headers['content-type']).startsWith('application/json');
    return { ...answer, json: isJson ? JSON.parse(text) : undefined };
  }

  return {
    app,
    store,
    metrics,
    /** URL of the server, without a path. */
    url,
    port,
    /** URL of the store. */
    databaseUrl,
    /** A key with both scopes. */
    key,
    /** Log lines so far. */
    log: () => lines.join(''),
    /** Those that contain a text, parsed. */
    logged: (text: string) => lines.filter((line) => line.includes(text)).map((line) => JSON.parse(line)),
    /** Sets the server's clock. */
    setTime,
    newKey,
    call,
    get: (target: string, options?: CallOptions) => call('GET', target, options),
    /** Adds a pet. */
    add: (pet: object, headers: Record<string, string> = {}) => call('POST', '/v1/pets', { body: pet, headers }),
  };
}
