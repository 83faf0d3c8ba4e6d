/** An HTTP client that records which pets the server has acknowledged. */
import { Pool } from 'undici';
import { onTestFinished } from 'vitest';

export interface Outcome {
  /** `cut`: the connection was refused, reset or closed before the response was complete. */
  status: number | 'cut';
  // biome-ignore lint/suspicious/noExplicitAny: tests assert the fields that they read.
  json: any;
  headers: Record<string, string | string[] | undefined>;
}

/** Pets acknowledged with 201: name → id. Several clients can share one map. */
export type Promises = Map<string, number>;

/** Opens a client with at most `connections` requests in flight; further requests are queued. */
export function openClient(url: string, key: string, connections: number, promises: Promises = new Map()) {
  const pool = new Pool(url, { connections });
  const close = () => pool.destroy();
  onTestFinished(close);
  const authorization = `Bearer ${key}`;

  async function call(method: 'GET' | 'POST', path: string, body?: object, more?: Record<string, string>) {
    try {
      const answer = await pool.request({
        method,
        path,
        headers: { authorization, ...(body && { 'content-type': 'application/json' }), ...more },
        body: body ? JSON.stringify(body) : null,
      });
      return { status: answer.statusCode, json: await answer.body.json(), headers: answer.headers } as Outcome;
    } catch {
      return { status: 'cut', json: undefined, headers: {} } as Outcome;
    }
  }

  return {
    get: (path: string) => call('GET', path),
    /** Adds a pet with this name, and with `retryKey` as its Idempotency-Key, if given. */
    async add(name: string, retryKey?: string) {
      const pet = { name, categoryId: 7 };
      const outcome = await call('POST', '/v1/pets', pet, retryKey ? { 'idempotency-key': retryKey } : {});
      if (outcome.status === 201) promises.set(name, outcome.json.id);
      return outcome;
    },
    close,
  };
}

export type Client = ReturnType<typeof openClient>;

/** Runs `act` `count` times concurrently, with an index from 0. */
export async function sideBySide(count: number, act: (index: number) => Promise<void>) {
  await Promise.all(Array.from(Array(count), (_, index) => act(index)));
}
