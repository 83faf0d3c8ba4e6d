/** What the plugins of the server find on the Fastify instance, on requests and on replies, and what routes can configure. */
import type { FastifyReply } from 'fastify';
import type { KnownKey } from '../core/accounts.ts';
import type { AppStore } from '../core/app-store.ts';
import type { ErrorCode } from '../core/errors.ts';
import type { Limits } from '../core/limits.ts';
import type { Metrics } from './metrics.ts';
import type { Operation } from './operation.ts';
import type { HeaderFields, KnownResponse } from './responses.ts';

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
  /** Limits that differ from those of the server, for tests. */
  limits?: Partial<Limits> | undefined;
  /** Origins whose pages may call the API from a browser. If undefined, none may. */
  corsOrigins?: string[] | undefined;
}

declare module 'fastify' {
  interface FastifyInstance {
    store: AppStore;
    config: AppConfig & {
      /** The start of the URLs in responses: the public base address, or its path. Ends in /v1. */
      base: string;
      limits: Limits;
    };
    /** Whether an address is that of a proxy in TRUST_PROXY. */
    isProxy: ((address: string) => boolean) | undefined;
    metrics: Metrics;
    now: () => Date;
    /** True while the process is about to stop. Responses then carry Connection: close, so that clients reconnect elsewhere. */
    draining: () => boolean;
    /** Throws ApiError `route_not_found`, or shows a person a page. */
    notFound: (request: FastifyRequest, reply: FastifyReply) => Promise<FastifyReply> | undefined;
  }
  interface FastifyRequest {
    /** Null before the key is accepted, and on routes that need none. */
    apiKey: KnownKey | null;
    /** How long its body took to arrive, in milliseconds. */
    bodyMs: number;
    errorCode: ErrorCode | undefined;
  }
  interface FastifyReply {
    sendResponse(response: KnownResponse): FastifyReply;
  }
  interface FastifyContextConfig {
    operation?: Operation;
    /** Whether the body is a form instead of JSON. */
    form?: boolean;
    /** The headers of each response of the route, whatever its status. */
    headers?: HeaderFields;
    /** Whether the path has been removed: its methods then leave Allow. */
    removed?: () => boolean;
    /** Whether the path counts as one that does not exist. */
    isUnknown?: boolean;
  }
}
