/** What the plugins of the server find on the Fastify instance and on requests, and what routes can configure. */
import type { FastifyBaseLogger, FastifyReply } from 'fastify';
import type { ApiKey } from '../core/accounts.ts';
import type { AppStore } from '../core/store.ts';
import type { KeyCache } from './auth.ts';
import type { Turns } from './connection/turns.ts';
import type { CorsLines } from './cors.ts';
import type { ServesHost } from './hosts.ts';
import type { Metrics } from './metrics.ts';
import type { Operation } from './operation.ts';
import type { createCheck } from './request-checks.ts';
import type { RequestRecord } from './request-record.ts';
import type { Shares } from './shares.ts';

/** Who can create an account: anyone, people with an invitation, or nobody; `none`: there are no account pages. */
export type SignUp = 'open' | 'invitation' | 'off' | 'none';

export interface AppConfig {
  /** True in production, whose API keys start with `ast_live_`. */
  live: boolean;
  /** Public base address, ending in /v1. If undefined, URLs in responses are absolute paths. */
  baseUrl?: string | undefined;
  signUp: SignUp;
  /** Path of the messages quickstart. If undefined, it is not served. */
  quickstartBasePath?: string | undefined;
  /** Whether getPet returns 410 from its sunset date on. */
  enforceSunset: boolean;
  /** Limit of the open connections. */
  maxConnections: number;
  /** Requests per minute of one account. If undefined, unlimited. */
  requestsPerMinute?: number | undefined;
  /** Addresses and networks of the proxies whose X-Forwarded-For header is trusted. */
  trustProxy?: string[] | undefined;
  /** The hosts that requests may name. If undefined, any. */
  servesHost?: ServesHost | undefined;
  /** Origins whose pages may call the API from a browser. If undefined, none may. */
  corsOrigins?: string[] | undefined;
}

declare module 'fastify' {
  interface FastifyInstance {
    store: AppStore;
    config: AppConfig;
    /** The start of the URLs in responses: the public base address, or its path. Ends in /v1. */
    base: string;
    metrics: Metrics;
    logger: FastifyBaseLogger;
    now: () => Date;
    /** Whether getPet has been removed. */
    removed: () => boolean;
    /** True while the process is about to stop. Responses then carry Connection: close, so that clients reconnect elsewhere. */
    draining: () => boolean;
    corsLines: CorsLines;
    checkRequest: ReturnType<typeof createCheck>;
    shares: Shares;
    keys: KeyCache;
    /** Holds all requests, until the function that it returns is called. */
    pause: Turns['pause'];
    /** Goes on with a request in this turn of the event loop or a later one. */
    resume: Turns['resume'];
    closeIdle: () => void;
    /** Throws ApiError `route_not_found`, or responds to `OPTIONS *`. */
    notFound: (request: FastifyRequest, reply: FastifyReply) => void;
  }
  interface FastifyRequest {
    record: RequestRecord;
    /** Null before the key is accepted, and on routes that need none. */
    apiKey: ApiKey | null;
    /** The lines of the headers that the response carries, whatever its status. */
    ownHeaders: string;
  }
  interface FastifyContextConfig {
    operation?: Operation;
    /** Whether the body is a form instead of JSON. */
    form?: boolean;
    /** The lines of the headers of each response of the route, whatever its status. */
    headers?: string;
    /** Whether the path has been removed: its methods then leave Allow. */
    removed?: () => boolean;
  }
}
