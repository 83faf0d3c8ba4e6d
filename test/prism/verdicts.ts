/** What Prism says of an exchange, less what is a limit of its own. */
import type { Exchange } from '../support/exchanges.ts';
import type { Prism, Violation } from './prism.ts';

export interface Judgement {
  /** Violations by the answer. */
  answer: Violation[];
  /** Violations by the request; none where the server refused it. */
  request: Violation[];
  /** Where one was not taken as it was, or a violation by the request was not counted. */
  allowances: string[];
}

export const accepted = ({ answer: { status } }: Exchange) => status < 300 || status === 304;

/** Prism answers a 501 with an example of its own in place of the upstream's, whatever that was. */
export const isMocked = ({ answer }: Exchange) => answer.status === 501;

/** Prism passes on no GET with a body; the server reads none of it. */
const hasBodyOfGet = ({ method, body }: Exchange) => method === 'GET' && body !== null;

/** Prism found no operation, and looked no further. */
const isUnknown = ({ message }: Violation) => message === 'Selected route not found';

/**
 * Prism gives `format: int64` the bounds of JavaScript's exact integers, ±(2^53 - 1), which the documents do not name: as it reads JSON, it
 * could not keep the digits of others.
 */
const isNumberTooExact = ({ code, message }: Violation) =>
  (code === 'maximum' && message.endsWith(' must be <= 9007199254740991')) ||
  (code === 'minimum' && message.endsWith(' must be >= -9007199254740991'));

/**
 * Where a deprecated operation answers without Deprecation, Prism puts in `true`, and then finds that it is no date. Headers that are too
 * large are refused before the path is known, so these answers alone have none.
 */
const isDeprecationOfItsOwn = ({ location }: Violation, { answer: { status, headers } }: Exchange) =>
  location.join('.') === 'response.header.deprecation' && status === 431 && headers.deprecation === undefined;

/**
 * The same answer, to a request that Prism can take: it never answers one whose JSON it cannot read, and ends where its header with the
 * violations would name a member in letters beyond Latin-1.
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

/** The same with integers that Prism can hold, in the answer. */
function withSmallIntegers({ answer, ...request }: Exchange): Exchange {
  const { 'content-length': _, ...headers } = answer.headers;
  return {
    ...request,
    answer: { ...answer, headers, text: answer.text.replace(/("categoryId": ?)-?\d{16,}/g, '$17') },
  };
}

const by = (side: 'request' | 'response', violations: Violation[]) =>
  violations.filter(({ location }) => location[0] === side);

/** Throws where Prism does not judge the answer. */
export async function judge(prism: Prism, exchange: Exchange): Promise<Judgement> {
  const allowances: string[] = [];
  let sent = exchange;
  if (!accepted(exchange)) sent = toPlainRequest(exchange);
  if (accepted(exchange) && hasBodyOfGet(exchange)) {
    allowances.push('GET with a body, judged without');
    sent = { ...exchange, body: null };
  }
  let verdict = await prism.judge(sent);

  let request: Violation[] = [];
  if (accepted(exchange)) {
    const all = by('request', verdict.violations);
    if (all.some(isNumberTooExact)) allowances.push('requests with integers beyond 2^53');
    request = all.filter((one) => !isNumberTooExact(one));
  }
  if (by('response', verdict.violations).some(isNumberTooExact)) {
    allowances.push('answers with integers beyond 2^53, judged with small ones');
    verdict = await prism.judge(withSmallIntegers(sent));
  }
  if (!verdict.passed || verdict.violations.some(isUnknown)) throw new Error(`not judged: ${JSON.stringify(exchange)}`);
  const all = by('response', verdict.violations);
  const answer = all.filter((one) => !isDeprecationOfItsOwn(one, exchange));
  if (answer.length < all.length) allowances.push('431 to which Prism adds a Deprecation');
  return { answer, request, allowances };
}
