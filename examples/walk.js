/** Prints all animals, page by page, with every digit of their numbers. */
const { KEY, BASE_URL = 'http://127.0.0.1:3000/v1' } = process.env;
const usage = 'Usage: KEY=YOUR_API_KEY npx node examples/walk.js [available|pending|sold]';

function end(sentence, exitCode) {
  console.error(sentence);
  process.exit(exitCode);
}

// Node before 21 does not pass `source` to a reviver, and would print rounded numbers.
if (Number.parseInt(process.versions.node, 10) < 24)
  end(`This example needs Node 24 or later, and this is ${process.version}.\n${usage}`, 2);
if (!KEY || process.argv.length > 3) end(usage, 2);

/** JSON.parse rounds integers beyond 2^53. This makes them BigInt, so that a categoryId keeps every digit. */
const parse = (text) =>
  JSON.parse(text, (_name, value, { source }) =>
    typeof value === 'number' && !Number.isSafeInteger(value) && /^-?\d+$/.test(source) ? BigInt(source) : value,
  );

/** The address of the next page from the Link header (RFC 8288), which can be a path without a host. */
function nextPage(response) {
  const next = /<([^>]*)>; rel="next"/.exec(response.headers.get('link') ?? '')?.[1];
  return next && new URL(next, response.url);
}

async function* allPets(status) {
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
    yield* parse(text);
    page = nextPage(response);
  }
}

// Whoever reads the output, such as head, may have enough of it.
process.stdout.on('error', () => process.exit());
try {
  for await (const { id, name, categoryId, status } of allPets(process.argv[2]))
    console.log(`${id}\t${name}\t${categoryId}\t${status}`);
} catch (error) {
  end(error.cause ? `${BASE_URL} does not answer: ${error.cause.code ?? error.cause.message}.` : error.message, 1);
}
