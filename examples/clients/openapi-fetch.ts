/** A typed client: the compiler checks paths, parameters, bodies and responses against openapi.yaml. */
import createClient from 'openapi-fetch';
import { clientFetch, nextCursor } from './client-fetch.ts';
import type { components, paths } from './generated/openapi-fetch.d.ts';

const { KEY, BASE_URL = 'http://127.0.0.1:3000/v1' } = process.env;

function end(sentence: string, exitCode: number): never {
  console.error(sentence);
  process.exit(exitCode);
}

if (!KEY) end('Usage: KEY=YOUR_API_KEY npx node openapi-fetch.ts', 2);

/** The generated types say `number` for an int64, which rounds beyond 2^53. clientFetch reads and writes a bigint, too. */
type Exact<Type> = Type extends object
  ? { [Name in keyof Type]: Name extends 'categoryId' ? number | bigint : Exact<Type[Name]> }
  : Type;

const client = createClient<Exact<paths>>({
  baseUrl: BASE_URL,
  headers: { authorization: `Bearer ${KEY}` },
  fetch: clientFetch,
});

type Failure = components['schemas']['Error'];
const refusal = ({ code, message }: Failure) => new Error(`${code}: ${message}`);

async function addAndList(): Promise<void> {
  const { data: pet, error } = await client.POST('/pets', {
    body: { name: 'Biscuit', categoryId: 9007199254740993n, status: 'available' },
  });
  if (error) throw refusal(error);
  console.log(`Added animal ${pet.id}, which is ${pet.status}.`);

  let cursor: string | undefined;
  do {
    const query = { status: 'available' as const, limit: 100, ...(cursor && { cursor }) };
    const { data: page, error, response } = await client.GET('/pets', { params: { query } });
    if (error) throw refusal(error);
    for (const { name, categoryId } of page) console.log(`${name}: ${categoryId}`);
    cursor = nextCursor(response.headers);
  } while (cursor);
}

await addAndList().catch(({ cause, message }: { cause?: { code?: string; message: string }; message: string }) =>
  end(cause ? `${BASE_URL} does not answer: ${cause.code ?? cause.message}.` : message, 1),
);
