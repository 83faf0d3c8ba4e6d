/** The client of hey-api: adds an animal, reads all pages, and tells errors by their code. The README has the command that generates it. */
import { clientFetch, nextCursor } from './client-fetch.ts';
import { client } from './generated/hey-api/client.gen.ts';
import { createPet, listPets } from './generated/hey-api/sdk.gen.ts';

const { KEY, BASE_URL = 'http://127.0.0.1:3000/v1' } = process.env;
client.setConfig({ baseUrl: BASE_URL, auth: () => KEY, fetch: clientFetch });

const added = await createPet({ body: { name: 'Biscuit', categoryId: 9007199254740993n } });
if (!added.data) throw new Error(`${added.error.code}: ${added.error.message}`);
console.log(`Added an animal of category ${added.data.categoryId}.`);

let count = 0;
let cursor: string | undefined;
do {
  const page = await listPets({ query: { limit: 100, cursor } });
  if (!page.data) throw new Error(`${page.error.code}: ${page.error.message}`);
  count += page.data.length;
  cursor = page.response && nextCursor(page.response.headers);
} while (cursor);
console.log(`Read ${count} animals.`);

const { error } = await listPets({ query: { cursor: 'x' } });
if (error) console.log(`${error.code}: ${error.message}`);
