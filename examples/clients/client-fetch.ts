/**
 * A `fetch` for generated clients. It keeps every digit of integers, retries what is safe to retry, and finds the next page. Copy this file
 * next to your client.
 */

// JSON.stringify rejects a bigint. This writes its digits as a number, in every client.
Object.assign(BigInt.prototype, {
  toJSON(this: bigint) {
    // TypeScript's library does not declare rawJSON yet.
    return (JSON as unknown as { rawJSON: (text: string) => unknown }).rawJSON(String(this));
  },
});

type Reviver = (name: string, value: unknown, context: { source: string }) => unknown;

/** Parses JSON with what `keep` makes of the digits of each integer that a JavaScript number would round. */
function parse(text: string, keep: (digits: string) => unknown): unknown {
  const revive: Reviver = (_name, value, { source }) =>
    typeof value === 'number' && !Number.isSafeInteger(value) && /^-?\d+$/.test(source) ? keep(source) : value;
  // TypeScript's library does not declare the third argument yet.
  return JSON.parse(text, revive as (name: string, value: unknown) => unknown);
}

/**
 * The same response. Its `json()` returns an integer beyond 2^53 as a bigint. Its `text()`, which most clients pass to JSON.parse, has it in
 * quotes. Read both with BigInt(pet.categoryId). What is not JSON, such as the page of a proxy, stays as it is.
 */
function exactly({ status, statusText, headers: sent }: Response, text: string): Response {
  const headers = new Headers(sent);
  if (!headers.get('content-type')?.startsWith('application/json'))
    return new Response(text || null, { status, statusText, headers });
  const quoted = text && JSON.stringify(parse(text, String));
  headers.set('content-length', String(new TextEncoder().encode(quoted).length));
  const exact = new Response(quoted || null, { status, statusText, headers });
  return Object.assign(exact, { json: async () => parse(text, BigInt) });
}

const attempts = 6;

/** Whether to retry: the outcome is unknown, or the server asks the client to try later. */
const isUnsettled = (status: number) => (status >= 500 && status !== 501) || status === 429 || status === 408;

/** Every POST gets an Idempotency-Key, so that a retry adds nothing twice. The last response or error is returned as it is. */
export const clientFetch = async (input: Parameters<typeof fetch>[0], init?: RequestInit): Promise<Response> => {
  const request = new Request(input, init);
  if (request.method === 'POST' && !request.headers.has('idempotency-key'))
    request.headers.set('idempotency-key', crypto.randomUUID());
  for (let attempt = 1; ; attempt += 1) {
    let waitMs = 100 * 2 ** attempt * (0.5 + Math.random() / 2);
    try {
      const signal = AbortSignal.any([request.signal, AbortSignal.timeout(10_000)]);
      const response = await fetch(request.clone(), { signal });
      const text = await response.text();
      if (attempt === attempts || !isUnsettled(response.status)) return exactly(response, text);
      waitMs = Math.max(waitMs, 1000 * (Number(response.headers.get('retry-after')) || 0));
    } catch (error) {
      if (attempt === attempts || request.signal.aborted) throw error;
    }
    await new Promise((resolve) => {
      setTimeout(resolve, waitMs);
      // The next attempt then throws.
      request.signal.addEventListener('abort', resolve, { once: true });
    });
  }
};

/** The cursor of the next page, from the Link header (RFC 8288). Undefined: this is the last page. */
export const nextCursor = (headers: Headers): string | undefined =>
  /[?&]cursor=([\w-]+)[^>]*>; rel="next"/.exec(headers.get('link') ?? '')?.[1];
