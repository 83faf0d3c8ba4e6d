/** Renders the account pages from their templates, and sends them. */
import { Eta } from 'eta';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { SessionEndedError } from '../core/accounts.ts';
import { headersOf, type LogError, type SendError, statuses, toApiError } from '../http/errors.ts';
import type { Exchanges } from '../http/exchange.ts';
import { linesOf } from '../http/head.ts';
import { refuseOtherMethods } from '../http/methods.ts';
import type { App } from '../http/operation.ts';
import { type Rendered, render, sendRendered, standingHeaders } from '../http/responses.ts';
import { type Refusal, refusalOf } from './forms.ts';

const templates = [
  'layout',
  'fault',
  'new-password',
  'sign-in',
  'sign-up',
  'link',
  'keys',
  'new-key',
  'key',
  'usage',
  'settings',
  'error',
] as const;
type Template = Exclude<(typeof templates)[number], 'layout' | 'fault' | 'new-password' | 'usage'>;

/** Where a redirect can lead: a page, and the notice that it shows. The type excludes text from a request, which could lead to another site. */
type Page = '' | '/sign-in' | '/settings' | `${'' | '/sign-in' | '/settings'}?done=${string}`;

/**
 * Values for a template. Eta escapes each one for HTML. Every template also has `form`, the route of the form that was sent, the members of
 * `refusal`, and `marks`.
 */
interface PageData extends Record<string, unknown> {
  title: string;
  refusal?: Refusal | undefined;
}

/** The attributes by which a control refers to its hint and to its fault, if it has them. */
function marksOf(faults: Refusal['faults']): (id: string, hint?: string) => string {
  return (id, hint) => {
    const fault = faults[id] === undefined ? undefined : `${id}-fault`;
    const described = [hint, fault].filter((one) => one !== undefined).join(' ');
    return `${described && ` aria-describedby="${described}"`}${fault ? ' aria-invalid="true"' : ''}`;
  };
}

export interface Pages {
  /** The path of a page, below the path of the public address. */
  path: (page: string) => string;
  show(request: FastifyRequest, reply: FastifyReply, template: Template, data: PageData): Promise<FastifyReply>;
  /** Redirects to another page (RFC 9110, section 15.4.4). */
  redirect(reply: FastifyReply, page: Page): FastifyReply;
}

export interface PagesOptions {
  /** Reads a file of src/pages/. */
  readFile: (name: string) => Promise<Buffer>;
  /** The path of the public address, without /v1; usually empty. */
  rootPath: string;
  exchanges: Exchanges;
  sendError: SendError;
  logError: LogError;
}

/** Pages load only files of this server, have no inline script or style, send forms only to this server, and cannot be framed. */
const security = {
  ...standingHeaders,
  'content-security-policy': [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self'",
    "form-action 'self'",
    "base-uri 'none'",
    "frame-ancestors 'none'",
  ].join('; '),
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
};

/**
 * No other site learns the address of a page. A browser that sends no Sec-Fetch-Site (over plain http, from another machine) must send Origin
 * instead, and with no-referrer its value would be null (Fetch Standard, section 3.1).
 */
const referrerPolicy = ({ headers }: FastifyRequest) =>
  headers['sec-fetch-site'] === undefined ? 'same-origin' : 'no-referrer';

const files = {
  'account.css': { type: 'text/css; charset=utf-8', parts: ['style.css', 'account.css'] },
  'account.js': { type: 'text/javascript; charset=utf-8', parts: ['copy.js', 'account.js'] },
};

/** Whether the client is a browser that shows pages. Other clients get errors as JSON. */
const wantsPage = ({ headers }: FastifyRequest) => headers.accept?.includes('text/html') ?? false;

export function createPages(app: App, options: PagesOptions): Pages {
  const { readFile, rootPath, exchanges, sendError, logError } = options;
  let loaded: Eta | undefined;
  const path = (page: string) => `${rootPath}/account${page}`;
  const redirect: Pages['redirect'] = (reply, page) => reply.code(303).header('location', path(page)).send();

  /** Compiles the templates for the first page: doing so at the start would delay it. */
  async function load(): Promise<Eta> {
    const eta = new Eta();
    for (const name of templates) eta.loadTemplate(`@${name}`, (await readFile(`account/${name}.eta`)).toString());
    return eta;
  }

  // This hook runs after that of http/responses.ts, and replaces its policy, which allows nothing.
  app.addHook('onSend', async (request, reply) => {
    reply.headers({ ...security, 'referrer-policy': referrerPolicy(request), 'cache-control': 'no-store' });
  });

  async function show(request: FastifyRequest, reply: FastifyReply, template: Template, data: PageData) {
    loaded ??= await load();
    const account = request.session?.account.name;
    const form = request.method === 'POST' ? request.routeOptions.url : undefined;
    const { summary, faults } = data.refusal ?? { summary: [], faults: {} };
    const shared = { account, path, rootPath, form, summary, faults, marks: marksOf(faults) };
    const html = Buffer.from(loaded.render(`@${template}`, { ...shared, ...data }));
    exchanges.reserveBytes(request, html);
    return reply.type('text/html; charset=utf-8').send(html);
  }

  app.setErrorHandler(async (thrown, request, reply) => {
    if (thrown instanceof SessionEndedError) return redirect(reply, '/sign-in?done=ended');
    if (!wantsPage(request) || request.raw.errored) return sendError(thrown, request, reply);
    const error = toApiError(thrown, request);
    const status = statuses[error.code];
    logError(error, request);
    reply.code(status).headers(headersOf(error));
    const { showAgain } = request.routeOptions.config;
    // A form without a body was rejected before it was read: it may come from another site. After a 500, the page itself may fail, too.
    const showError = () => show(request, reply, 'error', { title: titleOf(status), refusal: refusalOf(error) });
    if (showAgain && request.body && status !== 500) return showAgain(request, reply, error).catch(showError);
    return showError();
  });

  return {
    path,
    show,
    redirect,
  };
}

/** Serves the style sheet and the script of the pages. */
export function accountFileRoutes(
  app: App,
  { readFile, exchanges }: Pick<PagesOptions, 'readFile' | 'exchanges'>,
): void {
  for (const [name, { type, parts }] of Object.entries(files)) {
    const url = `/account/${name}`;
    let rendered: Rendered | undefined;
    app.get(url, async (_request, reply) => {
      rendered ??= render(Buffer.concat(await Promise.all(parts.map(readFile))), {
        security: linesOf(Object.entries(security).flat()),
        type,
      });
      sendRendered(exchanges, reply, rendered);
    });
  }
  refuseOtherMethods(app);
}

function titleOf(status: number): string {
  if (status === 404) return 'Not found';
  return status < 500 ? 'That did not work' : 'Something went wrong';
}
