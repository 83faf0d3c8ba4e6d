/** Validates an exchange with Prism, and leaves out findings that come from limits of Prism itself. */
import type { Exchange } from '../../support/exchanges.ts';
import type { Prism, Violation } from './prism.ts';

export interface Findings {
  /** Violations in the response. */
  answer: Violation[];
  /** Violations in the request; none if the server refused it. */
  request: Violation[];
  /** How the exchange was changed for Prism, or which violations were not counted. */
  allowances: string[];
}

export const accepted = ({ answer: { status } }: Exchange) => status < 300 || status === 304;

/** Prism replaces every 501 with its own example. */
export const isUnforwarded = ({ answer }: Exchange) => answer.status === 501;

/** Prism does not forward a GET with a body; the server ignores the body. */
const hasIgnoredBody = ({ method, body }: Exchange) => method !== 'POST' && body !== null;

/** Prism found no operation, and validated nothing. */
const isUnknown = ({ message }: Violation) => message === 'Selected route not found';

/**
 * Prism limits `format: int64` to JavaScript's safe integers, ±(2^53 - 1), because its JSON parser would lose the digits of larger
 * ones. The documents have no such limit.
 */
const isNumberTooExact = ({ code, message }: Violation) =>
  (code === 'maximum' && message.endsWith(' must be <= 9007199254740991')) ||
  (code === 'minimum' && message.endsWith(' must be >= -9007199254740991'));

/**
 * If a deprecated operation responds without Deprecation, Prism adds `true`, and then reports that it is not a date. Only a 431 lacks
 * the header, because it is sent before the path is known.
 */
const isDeprecationOfItsOwn = ({ location }: Violation, { answer: { status, headers } }: Exchange) =>
  location.join('.') === 'response.header.deprecation' && status === 431 && headers.deprecation === undefined;

/**
 * The same response to a request that Prism can process. Prism never responds to a request with invalid JSON, and exits if its header
 * with the violations would contain a member name outside Latin-1.
 */
function toPlainRequest({ method, target, answer }: Exchange): Exchange {
  return {
    method,
    target: target.replace(/\?.*$/s, ''),
    headers: { authorization: 'Bearer key', ...(method === 'POST' && { 'content-type': 'application/json' }) },
    body: method === 'POST' ? btoa('{}') : null,
    answer,
  };
}

/** The same exchange with small integers in the response, which Prism can represent. */
function withSmallIntegers({ answer, ...request }: Exchange): Exchange {
  const { 'content-length': _, ...headers } = answer.headers;
  return {
    ...request,
    answer: { ...answer, headers, text: answer.text.replace(/("categoryId": ?)-?\d{16,}/g, '$17') },
  };
}

const by = (side: 'request' | 'response', violations: Violation[]) =>
  violations.filter(({ location }) => location[0] === side);

/** Throws if Prism does not validate the response. */
export async function validate(prism: Prism, exchange: Exchange): Promise<Findings> {
  const allowances: string[] = [];
  let sent = exchange;
  if (!accepted(exchange)) sent = toPlainRequest(exchange);
  if (accepted(exchange) && hasIgnoredBody(exchange)) {
    allowances.push('GET with a body, validated without it');
    const { 'content-type': _, ...headers } = exchange.headers;
    sent = { ...exchange, headers, body: null };
  }
  let verdict = await prism.validate(sent);

  let request: Violation[] = [];
  if (accepted(exchange)) {
    const all = by('request', verdict.violations);
    if (all.some(isNumberTooExact)) allowances.push('requests with integers beyond 2^53');
    request = all.filter((one) => !isNumberTooExact(one));
  }
  if (by('response', verdict.violations).some(isNumberTooExact)) {
    allowances.push('responses with integers beyond 2^53, validated with small ones');
    verdict = await prism.validate(withSmallIntegers(sent));
  }
  if (!verdict.passed || verdict.violations.some(isUnknown))
    throw new Error(`unvalidated: ${JSON.stringify(exchange)}`);
  const all = by('response', verdict.violations);
  const answer = all.filter((one) => !isDeprecationOfItsOwn(one, exchange));
  if (answer.length < all.length) allowances.push('431, to which Prism adds a Deprecation header');
  return { answer, request, allowances };
}
