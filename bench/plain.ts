/**
 * The second baseline: the same operations with Fastify, written as in its documentation. No cache, ETag or metrics. argv: the port, the
 * store's file, and whether to log (on or off).
 */
import { hash } from 'node:crypto';
import bearerAuth from '@fastify/bearer-auth';
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import { type Static, Type } from '@sinclair/typebox';
import Database from 'better-sqlite3';
import fastify from 'fastify';

const [, , port, file, logger] = process.argv;

const Status = Type.Unsafe<string>({ type: 'string', enum: ['available', 'pending', 'sold'] });
const NewPet = Type.Object(
  {
    name: Type.String({ minLength: 1 }),
    categoryId: Type.Integer(),
    status: Type.Optional({ ...Status, default: 'available' }),
  },
  { additionalProperties: false },
);
const Pet = Type.Object({ id: Type.Integer(), name: Type.String(), categoryId: Type.Integer(), status: Status });
type Pet = Static<typeof Pet>;
const Page = Type.Object({
  limit: Type.Integer({ minimum: 1, maximum: 100, default: 20 }),
  status: Type.Optional(Status),
  cursor: Type.Optional(Type.String({ pattern: '^[A-Za-z0-9_-]+$' })),
});
const PetId = Type.Object({ petId: Type.Integer({ minimum: 1 }) });

const database = new Database(file);
database.pragma('journal_mode = WAL');
// better-sqlite3 is compiled to use NORMAL in WAL mode by default.
database.pragma('synchronous = FULL');
const columns = 'id, name, category_id AS categoryId, status';
const findKey = database.prepare<[Buffer, number]>(
  'SELECT 1 FROM api_key WHERE hash = ? AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > ?)',
);
const list = database.prepare<[number, number], Pet>(`SELECT ${columns} FROM pet WHERE id > ? ORDER BY id LIMIT ?`);
const listByStatus = database.prepare<[string, number, number], Pet>(
  `SELECT ${columns} FROM pet WHERE status = ? AND id > ? ORDER BY id LIMIT ?`,
);
const find = database.prepare<[number], Pet>(`SELECT ${columns} FROM pet WHERE id = ?`);
const insert = database.prepare<[Static<typeof NewPet>], Pet>(
  `INSERT INTO pet (name, category_id, status) VALUES (:name, :categoryId, :status) RETURNING ${columns}`,
);

const app = fastify({ logger: logger === 'on' }).withTypeProvider<TypeBoxTypeProvider>();
await app.register(bearerAuth, {
  keys: [],
  auth: (key) => findKey.get(hash('sha256', key, 'buffer'), Date.now()) !== undefined,
});

app.get('/v1/pets', { schema: { querystring: Page, response: { 200: Type.Array(Pet) } } }, async (request, reply) => {
  const { limit, status, cursor } = request.query;
  const after = cursor === undefined ? 0 : Number(Buffer.from(cursor, 'base64url').toString().slice('after:'.length));
  // One extra row shows whether a next page exists.
  const pets = status === undefined ? list.all(after, limit + 1) : listByStatus.all(status, after, limit + 1);
  const first = `/v1/pets?limit=${limit}${status === undefined ? '' : `&status=${status}`}`;
  const links = [`<${first}>; rel="first"`];
  if (pets.length > limit) {
    pets.pop();
    const next = Buffer.from(`after:${pets.at(-1)?.id}`).toString('base64url');
    links.unshift(`<${first}&cursor=${next}>; rel="next"`);
  }
  reply.header('link', links.join(', '));
  return pets;
});

app.get('/v1/pets/:petId', { schema: { params: PetId, response: { 200: Pet } } }, async (request, reply) => {
  return find.get(request.params.petId) ?? reply.callNotFound();
});

app.post('/v1/pets', { schema: { body: NewPet, response: { 201: Pet } } }, async (request, reply) => {
  // A statement outside BEGIN and COMMIT is its own transaction.
  const pet = insert.get(request.body) as Pet;
  reply.code(201).header('location', `/v1/pets/${pet.id}`);
  return pet;
});

await app.listen({ port: Number(port), host: '127.0.0.1' });
