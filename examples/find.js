/** Finds one animal by its id without GET /pets/{petId}, which will be removed: reads the pages of the list, of one status if that is known. */
const { KEY, BASE_URL = 'http://127.0.0.1:3000/v1' } = process.env;
const usage = 'Usage: KEY=YOUR_API_KEY npx node examples/find.js ID [available|pending|sold]';

function end(sentence, exitCode) {
  console.error(sentence);
  process.exit(exitCode);
}

if (Number.parseInt(process.versions.node, 10) < 24)
  end(`This example needs Node 24 or later, and this is ${process.version}.\n${usage}`, 2);
const [id, status, ...rest] = process.argv.slice(2);
if (!KEY || !/^\d+$/.test(id) || rest.length > 0) end(usage, 2);

/** The animal as JSON with every digit; undefined if there is none. A JavaScript number would round a categoryId beyond 2^53. */
async function findPet() {
  let page = new URL(`${BASE_URL}/pets?limit=100`);
  if (status) page.searchParams.set('status', status);
  while (page) {
    const response = await fetch(page, {
      headers: { authorization: `Bearer ${KEY}` },
      signal: AbortSignal.timeout(10_000),
    });
    const text = await response.text();
    // The JSON of an error, or the page of a proxy.
    if (!response.ok) throw new Error(`${response.status} ${text}`);
    const pets = JSON.parse(text, (_name, value, { source }) =>
      typeof value === 'number' && !Number.isSafeInteger(value) ? JSON.rawJSON(source) : value,
    );
    // Ids ascend: a greater one shows that this one is missing.
    const pet = pets.find((each) => each.id >= Number(id));
    if (pet) return pet.id === Number(id) ? JSON.stringify(pet) : undefined;
    // The address of the next page (RFC 8288) can be a path without a host.
    const next = /<([^>]*)>; rel="next"/.exec(response.headers.get('link') ?? '')?.[1];
    page = next && new URL(next, response.url);
  }
  return undefined;
}

try {
  const pet = await findPet();
  if (!pet) end(`There is no ${status ?? ''}${status ? ' ' : ''}animal with the id ${id}.`, 1);
  console.log(pet);
} catch (error) {
  end(error.cause ? `${BASE_URL} does not answer: ${error.cause.code ?? error.cause.message}.` : error.message, 1);
}
