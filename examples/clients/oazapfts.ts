/** The client of oazapfts: adds an animal, reads all pages, and tells errors by their code. The README has the command that generates it. */

import { clientFetch, nextCursor } from './client-fetch.ts';
import * as client from './generated/oazapfts.ts';

const { KEY, BASE_URL = 'http://127.0.0.1:3000/v1' } = process.env;
Object.assign(client.defaults, { baseUrl: BASE_URL, fetch: clientFetch, headers: { authorization: `Bearer ${KEY}` } });

// The types say `number`, which cannot hold this categoryId.
const newPet = { name: 'Biscuit', categoryId: 9007199254740993n as unknown as number };
const added = await client.createPet(newPet, {});
if (added.status !== 201) throw new Error(`${added.data.code}: ${added.data.message}`);
console.log(`Added an animal of category ${BigInt(added.data.categoryId)}.`);

let count = 0;
let cursor: string | undefined;
do {
  const page = await client.listPets({ limit: 100, ...(cursor && { cursor }) });
  if (page.status !== 200) throw new Error(`listPets returned ${page.status}.`);
  count += page.data.length;
  cursor = nextCursor(page.headers);
} while (cursor);
console.log(`Read ${count} animals.`);

const wrong = await client.listPets({ cursor: 'x' });
if (wrong.status === 400) console.log(`${wrong.data.code}: ${wrong.data.message}`);
