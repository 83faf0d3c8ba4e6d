/** A typed client: the compiler checks paths, parameters, bodies and responses against openapi.yaml. */
import createClient from 'openapi-fetch';
import type { components, paths } from './animal-store.d.ts';

type Pet = components['schemas']['Pet'];

const { KEY, BASE_URL = 'http://127.0.0.1:3000/v1' } = process.env;

function end(sentence: string, exitCode: number): never {
  console.error(sentence);
  process.exit(exitCode);
}

if (!KEY) end('Usage: KEY=YOUR_API_KEY npx node examples/typed.ts', 2);

const client = createClient<paths>({
  baseUrl: BASE_URL,
  headers: { authorization: `Bearer ${KEY}` },
});

/**
 * Parses JSON without rounding integers beyond 2^53, such as a large categoryId: they become BigInt. The generated types say `number` for
 * an int64, so take the response as text and parse it with this function.
 */
function exactly<Value>(text: string): Value {
  const revive = (_name: string, value: unknown, { source }: { source: string }) =>
    Number.isInteger(value) && !Number.isSafeInteger(value) ? BigInt(source) : value;
  // TypeScript's library does not declare the third argument yet.
  return JSON.parse(text, revive as (name: string, value: unknown) => unknown);
}

async function addAndList(): Promise<void> {
  const added = await client.POST('/pets', {
    params: { header: { 'Idempotency-Key': crypto.randomUUID() } },
    body: { name: 'Biscuit', categoryId: 7 },
  });
  if (added.error) throw new Error(`${added.error.code}: ${added.error.message}`);
  const { id, status }: Pet = added.data;
  console.log(`Added animal ${id}, which is ${status}.`);

  const listed = await client.GET('/pets', { params: { query: { status: 'available', limit: 100 } }, parseAs: 'text' });
  if (listed.error) throw new Error(`${listed.error.code}: ${listed.error.message}`);
  type Exact = Omit<Pet, 'categoryId'> & { categoryId: number | bigint };
  for (const { name, categoryId } of exactly<Exact[]>(listed.data)) console.log(`${name}: ${categoryId}`);
}

await addAndList().catch(({ cause, message }: { cause?: { code?: string; message: string }; message: string }) =>
  end(cause ? `${BASE_URL} does not answer: ${cause.code ?? cause.message}.` : message, 1),
);
