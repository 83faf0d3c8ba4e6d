/** Renders the account pages from their templates, and adds the routes of pages and of their forms. docs/routes.ts serves their style and script. */
import { Eta } from 'eta';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { type Refusal, RefusedError } from '../core/accounts.ts';
import { type ApiError, errorTable } from '../core/errors.ts';
import { limits } from '../core/limits.ts';
import { beginError, sendError } from '../http/errors.ts';
import { pageHeaders } from '../http/headers.ts';
import type { App } from '../http/operation.ts';
import { type Fault, FormError } from './forms.ts';
import { createLine } from './line.ts';
import { relativeTime, timeOf } from './times.ts';
import { figure } from './usage.ts';

/** Compiles each template when a page needs it for the first time. */
const eta = new Eta({ views: `${import.meta.dirname}/../pages`, cache: true });

/** The notices, each by the template of its page and what the query names. No text of the query is shown. */
const notices = new Map([
  ['sign-in ended', 'Your session has ended. Sign in again.'],
  [
    'sign-in no-cookie',
    'You are not signed in, because your browser did not send the cookie of the session: allow cookies for this site.',
  ],
  ['sign-in deleted', 'Your account and its keys are deleted.'],
  ['sign-in signed-out', 'You are signed out.'],
  ['keys made', 'This form has made its key before. If you did not see it, revoke it and make another.'],
  ['keys revoked', 'The key is revoked. Within a second, requests with it are refused.'],
  ['key changed', 'The key is changed. Within a second, this applies to all requests with it.'],
  ['settings password', 'Your password is changed, and all other sessions have ended.'],
]);

/** Text of a request that `ownPage` has checked. */
type OwnPage = string & { isOwn: true };

/** Where a redirect can lead, beside the notice that the page shows. The type excludes other text from a request, which could lead to another site. */
type Page = '' | '/sign-in' | '/settings' | `/keys/${number}` | OwnPage;
type Place = Page | `${Page}?${string}`;

/** The page below /account that a request names, to lead there after sign-in. Any other text: that of keys. The characters allow no other site and no other header. */
export const ownPage = (text: unknown) =>
  typeof text === 'string' && /^(?:\/[a-z\d-]+)+$/.test(text) ? (text as OwnPage) : '';

/** Where a form leads that is refused for such a reason. */
const elsewhere: Partial<Record<Refusal, Place>> = { session_ended: '/sign-in?done=ended', form_used: '?done=made' };

interface PageData extends Record<string, unknown> {
  /** Why the form that was sent is refused. */
  error?: ApiError | undefined;
  /** The id of the control of a field. Default: the name of the field. */
  idOf?: (field: string) => string;
}

/** Shows a page. `error`: why the form that the request sent is refused. */
export type Show = (
  request: FastifyRequest,
  reply: FastifyReply,
  error?: ApiError,
) => FastifyReply | Promise<FastifyReply>;

/** Does what a form asks for. An ApiError that it throws is shown on the page of the form. */
export type Act = (request: FastifyRequest, reply: FastifyReply) => Promise<FastifyReply>;

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Shows the page of the form again. */
    showAgain?: Show;
  }
}

const security = { ...pageHeaders("form-action 'self'"), 'cross-origin-resource-policy': 'same-origin' };

/** The message of an error for a person, who sees no headers such as Retry-After. `id`: of the request. */
function sentenceOf({ code, message }: ApiError, id: string): string {
  if (message === errorTable.service_unavailable[1])
    return 'The service cannot answer right now: try again in a few seconds.';
  return code === 'internal_error'
    ? `The service has a fault. Its operator can find it by this number: ${id}`
    : message;
}

/** The sentences above a refused form with the control that each links to, the same by control, and the attributes that lead to them. */
function refusalOf({ error, idOf = (field) => field }: PageData, id: string) {
  const faults: readonly Fault[] =
    error instanceof FormError ? error.faults : error ? [{ text: sentenceOf(error, id) }] : [];
  const summary = faults.map(({ field, text }) => ({ text, at: field && idOf(field) }));
  const faultAt = (id: string) => summary.find(({ at }) => at === id)?.text;
  const marks = (id: string, hint?: string) => {
    const described = [hint, faultAt(id) && `${id}-fault`].filter(Boolean).join(' ');
    return `${described && ` aria-describedby="${described}"`}${faultAt(id) ? ' aria-invalid="true"' : ''}`;
  };
  return { summary, faultAt, marks };
}

/** Pages that are made at the same time, and in one turn of the event loop: one with many keys takes milliseconds, which API clients would wait. */
const maxShown = 2;

/** `rootPath`: the path of the public address, without /v1; usually empty. */
export function createPages(app: App, rootPath: string) {
  const inTurn = createLine({ running: maxShown });
  /** The path of a page, below the path of the public address. */
  const path = (page: string) => `${rootPath}/account${page}`;
  /** Redirects to another page (RFC 9110, section 15.4.4). */
  const redirect = (reply: FastifyReply, page: Place) => reply.code(303).header('location', path(page)).send();

  app.addHook('onSend', (request, reply, _payload, done) => {
    reply.header('cache-control', 'no-store');
    // Other clients than browsers get errors as JSON.
    const isJson = reply.getHeader('content-type') === 'application/json';
    // No other site learns the address of a page. A browser that sends no Sec-Fetch-Site (over plain http, from another machine) must send Origin
    // instead, and with no-referrer its value would be null (Fetch Standard, section 3.1).
    const policy = request.headers['sec-fetch-site'] === undefined ? 'same-origin' : 'no-referrer';
    if (!isJson) reply.headers({ ...security, 'referrer-policy': policy });
    done();
  });

  /** Eta escapes each value for HTML. Every template also has what stands here. Renders nothing for a client that is gone. */
  async function show(request: FastifyRequest, reply: FastifyReply, template: string, data: PageData) {
    if (request.raw.socket.destroyed) return reply;
    const { done } = request.query as { done?: unknown };
    const { name } = (request.body ?? {}) as { name?: unknown };
    const now = app.now();
    const shared = {
      path,
      rootPath,
      now,
      time: timeOf,
      ago: (date: Date) => relativeTime(date, now),
      figure,
      account: request.session?.account.name,
      quickstart: app.config.quickstartBasePath !== undefined,
      // What the person typed, to show it again. Passwords are never shown again.
      name: typeof name === 'string' ? name : '',
      notice: notices.get(`${template} ${done}`),
      ...refusalOf(data, request.id),
    };
    const html = Buffer.from(eta.render(`account/${template}`, { ...shared, ...data }));
    // client-errors.ts may have answered.
    return reply.sent ? reply : reply.type('text/html; charset=utf-8').send(html);
  }

  app.setErrorHandler(async (thrown, request, reply) => {
    const place = thrown instanceof RefusedError ? elsewhere[thrown.reason] : undefined;
    if (place !== undefined) return redirect(reply, place);
    // Only a browser shows pages. Other clients get errors as JSON.
    if (!request.headers.accept?.includes('text/html') || request.raw.errored) return sendError(thrown, request, reply);
    const error = beginError(thrown, request, reply);
    const { status } = error;
    const { showAgain } = request.routeOptions.config;
    try {
      // A form without a body was rejected before it was read: it may come from another site. After a 500, the page itself may fail, too. A 404 is about
      // what the form's path names: it has no field on the page.
      if (showAgain && request.body && status !== 500 && status !== 404) return await showAgain(request, reply, error);
    } catch {}
    return show(request, reply, 'error', { error, status });
  });

  return {
    path,
    show,
    redirect,
    /** Adds a page at `url`, and its forms, each by its path: the path of another one than the page leads to the page. */
    route(scope: App, url: string, showPage: Show, forms: Record<string, Act> = {}): void {
      const showInTurn: Show = (request, reply, error) =>
        inTurn(request.client.network, () => showPage(request, reply, error), request.raw.socket);
      scope.get(url, (request, reply) => showInTurn(request, reply));
      for (const [at, act] of Object.entries(forms)) {
        if (at !== url) scope.get(at, (_request, reply) => redirect(reply, url as Page));
        const config = { form: true, showAgain: showInTurn };
        scope.post(at, { bodyLimit: limits.formBytes, config }, act);
      }
    },
  };
}
