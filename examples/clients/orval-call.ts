/** Sends the requests of the client of orval. */
import { clientFetch } from './client-fetch.ts';

const { KEY, BASE_URL = 'http://127.0.0.1:3000/v1' } = process.env;

/** The fields of format int64, which are bigints in the types. */
const int64 = ['id', 'categoryId'];

export async function call<Answer>(url: string, init: RequestInit): Promise<Answer> {
  const headers = new Headers(init.headers);
  headers.set('authorization', `Bearer ${KEY}`);
  const response = await clientFetch(BASE_URL + url, { ...init, headers });
  const revive = (name: string, value: unknown) => (int64.includes(name) ? BigInt(value as number | string) : value);
  const data: unknown = JSON.parse(await response.text(), revive);
  return { status: response.status, headers: response.headers, data } as Answer;
}
