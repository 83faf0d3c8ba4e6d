/** The client of orval: adds an animal, reads all pages, and tells errors by their code. The README has the command that generates it. */
import { nextCursor } from './client-fetch.ts';
import { createPet, listPets } from './generated/orval.ts';

const added = await createPet({ name: 'Biscuit', categoryId: 9007199254740993n });
if (added.status !== 201) throw new Error(`${added.data.code}: ${added.data.message}`);
console.log(`Added an animal of category ${added.data.categoryId}.`);

let count = 0;
let cursor: string | undefined;
do {
  const page = await listPets({ limit: 100, ...(cursor && { cursor }) });
  if (page.status !== 200) throw new Error(`listPets returned ${page.status}.`);
  count += page.data.length;
  cursor = nextCursor(page.headers);
} while (cursor);
console.log(`Read ${count} animals.`);

const wrong = await listPets({ cursor: 'x' });
if (wrong.status === 400) console.log(`${wrong.data.code}: ${wrong.data.message}`);
