/** The texts of the OpenAPI documents that no route has: words.yaml and introduction.md, with the values of the code. */
import { readFileSync } from 'node:fs';
import { parse } from 'yaml';
import { dateText, sunset } from '../../src/core/deprecation.ts';
import type { ErrorCode } from '../../src/core/errors.ts';
import { retryWindowMs } from '../../src/core/idempotency.ts';
import { inDigits, limits } from '../../src/core/limits.ts';
import { deprecationHeaders } from '../../src/pets/routes.ts';
import type { Json } from './components.ts';

/** In the reference page, BASE_URL replaces it, or a script without BASE_URL. */
const server = 'https://api.example.com/v1';

const kibibytes = (bytes: number) => `${bytes / 1024} KiB`;
const announcement = deprecationHeaders(server);
const values: Record<string, string | number | undefined> = {
  server,
  announced: announcement.deprecation,
  announcedSunset: announcement.sunset,
  announcedLink: announcement.link,
  sunset: dateText(sunset),
  url: inDigits(limits.urlBytes),
  headers: kibibytes(limits.headerBytes),
  bodyBytes: inDigits(limits.bodyBytes),
  body: kibibytes(limits.bodyBytes),
  request: limits.requestMs / 1000,
  retries: `${retryWindowMs / 3_600_000} hours`,
};

/** The text of a file beside this one. */
const read = (file: string) => readFileSync(new URL(file, import.meta.url), 'utf8');

/** The text with its values. Throws if it names another one. */
function fill(text: string, more: Record<string, string> = {}): string {
  return text.replace(/\{\{(\w+)\}\}/g, (_, key: string) => {
    const value = more[key] ?? values[key];
    if (value === undefined) throw new Error(`There is no value "${key}".`);
    return String(value);
  });
}

/** The texts of the introduction, by the names in the comments before them. */
const texts = new Map(
  read('introduction.md')
    .split('<!-- ')
    .slice(1)
    .map((part) => {
      const [, title = '', text = ''] = /^(.*?)(?:: .*)? -->\n(.*)$/s.exec(part) ?? [];
      return [title, text.trim()];
    }),
);

/** A text of the introduction, in Markdown. Throws if there is none. */
export function textOf(title: string, more?: Record<string, string>): string {
  const text = texts.get(title);
  if (text === undefined) throw new Error(`introduction.md has no text "${title}".`);
  return fill(text, more);
}

interface Meaning {
  name: string;
  text: string;
  headers?: string[];
  before?: 'key' | 'path';
}

const words = parse(fill(read('words.yaml')));
export const frames: Record<string, { info: Json; [name: string]: unknown }> = words.frames;
export const headers: Record<string, Json> = words.headers;
export const meanings: Record<string, Meaning> = words.meanings;

/** Headers of every response. The introduction names two more, whose values never change: in each response they would make a tool's page a sixth longer. */
export const alwaysSent = ['X-Request-Id', 'Cache-Control'];
/** Headers of every response that is sent after the API key was accepted. */
export const rateHeaders = ['RateLimit-Limit', 'RateLimit-Remaining', 'RateLimit-Reset'];

/** The errors that every operation can return: HTTP, the API key and the server cause them, not the operation. */
export const commonErrors: ErrorCode[] = [
  'bad_request',
  'missing_api_key',
  'invalid_api_key',
  'expired_api_key',
  'revoked_api_key',
  'request_timeout',
  'uri_too_long',
  'expectation_failed',
  'rate_limited',
  'headers_too_large',
  'internal_error',
  'service_unavailable',
];
