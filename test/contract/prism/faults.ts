/** Makes invalid responses and requests from valid ones. */
import type { Answer } from '../../support/documented.ts';
import type { Exchange } from '../../support/exchanges.ts';

/** Headers that every response must have. */
const required = ['x-request-id', 'x-content-type-options', 'content-security-policy', 'cache-control'];

type Subject = Record<string, unknown>;

/** The first pet of a list, or the body itself. */
const subjectOf = (body: Subject | Subject[]): Subject => (Array.isArray(body) ? (body[0] as Subject) : body);

/** The body with its subject changed. */
function rewritten(text: string, change: (subject: Subject) => void): string {
  const body = JSON.parse(text);
  change(subjectOf(body));
  return JSON.stringify(body);
}

/** Name and request of each fault: requests that the server should have refused, with the response to the valid one. */
export function requestFaultsOf(exchange: Exchange): [string, Exchange][] {
  const { authorization: _, ...headers } = exchange.headers;
  const faults: [string, Exchange][] = [['no key', { ...exchange, headers }]];
  if (exchange.method === 'POST') faults.push(['a body without members', { ...exchange, body: btoa('{}') }]);
  else if (exchange.target.startsWith('/v1/pets/'))
    faults.push(['a petId in letters', { ...exchange, target: '/v1/pets/x' }]);
  else if (exchange.method === 'GET') faults.push(['a limit of 0', { ...exchange, target: '/v1/pets?limit=0' }]);
  return faults;
}

/** Name and response of each fault. */
export function faultsOf({ status, headers: all, text }: Answer): [string, Answer][] {
  const { 'content-length': _, ...headers } = all;
  const right = { status, headers, text };
  const faults: [string, Answer][] = [['another status', { ...right, status: 418 }]];
  for (const name of required) {
    const { [name]: _, ...others } = headers;
    faults.push([`without ${name}`, { ...right, headers: others }]);
  }
  if (text === '') return faults;

  faults.push(['another media type', { ...right, headers: { ...headers, 'content-type': 'text/html' } }]);
  const names = Object.keys(subjectOf(JSON.parse(text)));
  const [first = ''] = names;
  const without = (subject: Subject) => delete subject[first];
  faults.push([`without ${first}`, { ...right, text: rewritten(text, without) }]);
  for (const name of names) {
    const wrong = (subject: Subject) => Object.assign(subject, { [name]: {} });
    faults.push([`${name} of another type`, { ...right, text: rewritten(text, wrong) }]);
  }
  return faults;
}
