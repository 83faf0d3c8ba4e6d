/** A client of the server that remembers what it was promised. */
import { Pool } from 'undici';
import { onTestFinished } from 'vitest';

export interface Outcome {
  /** `cut`: the connection was refused, reset or closed before the whole answer. */
  status: number | 'cut';
  // biome-ignore lint/suspicious/noExplicitAny: a test states what it expects of a body by reading it.
  json: any;
  headers: Record<string, string | string[] | undefined>;
}

export interface Client {
  get: (path: string) => Promise<Outcome>;
  /** Adds an animal of this name, under this Idempotency-Key, if any. */
  add: (name: string, retryKey?: string) => Promise<Outcome>;
  close: () => Promise<void>;
}

/** What was answered 201: name → id. Several clients may share one. */
export type Promises = Map<string, number>;

/** At most `connections` requests are under way; others wait for their turn. */
export function openClient(url: string, key: string, connections: number, promises: Promises = new Map()): Client {
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
    get: (path) => call('GET', path),
    async add(name, retryKey) {
      const pet = { name, categoryId: 7 };
      const outcome = await call('POST', '/v1/pets', pet, retryKey ? { 'idempotency-key': retryKey } : {});
      if (outcome.status === 201) promises.set(name, outcome.json.id);
      return outcome;
    },
    close,
  };
}

/** Runs `count` of `act` side by side. Each is told which it is. */
export async function sideBySide(count: number, act: (index: number) => Promise<void>): Promise<void> {
  await Promise.all(Array.from({ length: count }, (_, index) => act(index)));
}
