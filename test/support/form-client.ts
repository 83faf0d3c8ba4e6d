/** Sends requests as a browser does that runs no script: it keeps cookies, and sends forms with the headers of their origin. */
import { Agent, request as undiciRequest } from 'undici';
import { onTestFinished } from 'vitest';
import type { Answer } from './documented.ts';

type Values = Record<string, string | string[]>;
/** A value of undefined removes a header that the client would send by itself. */
type Headers = Record<string, string | undefined>;

export interface Page extends Answer {
  /** Set-Cookie headers. */
  cookies: string[];
}

export type FormClient = ReturnType<typeof openFormClient>;

/** The form as application/x-www-form-urlencoded. A list becomes one field for each value. */
function encode(form: Values) {
  const pairs = Object.entries(form).flatMap(([name, value]) => [value].flat().map((one) => [name, one]));
  return new URLSearchParams(pairs).toString();
}

/** `url`: the server's address without a path. `own`: headers of each request. */
export function openFormClient(url: string, own: Headers = {}) {
  const agent = new Agent({ keepAliveTimeout: 1000, pipelining: 1 });
  onTestFinished(() => agent.destroy());
  const jar = new Map<string, string>();

  function keep(cookies: string[]) {
    for (const cookie of cookies) {
      const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(cookie) ?? [];
      if (value === '') jar.delete(name);
      else jar.set(name, value);
    }
  }

  async function exchange(method: string, path: string, headers: Headers, body?: string | Buffer) {
    const cookie = [...jar].map(([name, value]) => `${name}=${value}`).join('; ');
    const all: Headers = { accept: 'text/html,*/*;q=0.8', ...(cookie && { cookie }), ...own, ...headers };
    const response = await undiciRequest(url + path, {
      method: method as 'GET',
      headers: Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined)) as Values,
      body: body ?? null,
      dispatcher: agent,
    });
    const cookies = [response.headers['set-cookie'] ?? []].flat();
    keep(cookies);
    return { status: response.statusCode, headers: response.headers, text: await response.body.text(), cookies };
  }

  return {
    /** Cookies by name. */
    jar,
    /** The name of the session's cookie over http. */
    sessionName: `session-${new URL(url).port}`,
    get: (path: string, headers: Headers = {}) => exchange('GET', path, headers),
    send: (method: string, path: string, headers: Headers = {}) => exchange(method, path, headers),
    /** Sends a form; text and bytes are sent unchanged. */
    post(path: string, form: Values | string | Buffer = {}, headers: Headers = {}) {
      const body = typeof form === 'string' || Buffer.isBuffer(form) ? form : encode(form);
      const sent = {
        'content-type': 'application/x-www-form-urlencoded',
        origin: url,
        'sec-fetch-site': 'same-origin',
      };
      return exchange('POST', path, { ...sent, ...headers }, body);
    },
  };
}
