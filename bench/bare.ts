/** The baseline: node:http alone, which sends recorded responses. No key check, no validation, no database. */
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';

interface Recorded {
  status: number;
  headers: Record<string, string>;
  body: string;
}

/** argv: the port, and a file of recorded responses: one per list limit, one for a single animal, one for a POST and one without a key. */
const [, , port, file] = process.argv;
const recorded = JSON.parse(readFileSync(file as string, 'utf8')) as Record<string, Recorded>;
const answers = new Map(
  Object.entries(recorded).map(([name, { status, headers, body }]) => [
    name,
    { status, headers, body: Buffer.from(body) },
  ]),
);

function pick(url: string, authorized: boolean): string {
  if (!authorized) return 'none';
  if (url.startsWith('/v1/pets/')) return 'get';
  const limit = /limit=(\d+)/.exec(url)?.[1];
  return limit === undefined ? 'list' : `list ${limit}`;
}

const server = createServer((request, response) => {
  const answer = (name: string) => {
    const { status, headers, body } = answers.get(name) as {
      status: number;
      headers: Record<string, string>;
      body: Buffer;
    };
    response.writeHead(status, headers);
    response.end(body);
  };
  if (request.method === 'GET') return answer(pick(request.url as string, request.headers.authorization !== undefined));
  const chunks: Buffer[] = [];
  request.on('data', (chunk: Buffer) => chunks.push(chunk));
  request.on('end', () => {
    Buffer.concat(chunks);
    answer('create');
  });
});
server.listen(Number(port), '127.0.0.1', () => process.stdout.write('ready\n'));
