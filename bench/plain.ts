/**
 * The second baseline: the same operations with Fastify, written as in its documentation. No cache, ETag or metrics. argv: the port, the
 * store's file or the URL of its PostgreSQL database, and whether to log (on or off).
 */
import { hash } from 'node:crypto';
import bearerAuth from '@fastify/bearer-auth';
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import { Type } from '@sinclair/typebox';
import fastify from 'fastify';
import { openPostgres, openSqlite } from './plain-stores.ts';

const [, , port, databaseUrl = '', logger] = process.argv;

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
const Page = Type.Object({
  limit: Type.Integer({ minimum: 1, maximum: 100, default: 20 }),
  status: Type.Optional(Status),
  cursor: Type.Optional(Type.String({ pattern: '^[A-Za-z0-9_-]+$' })),
});
const PetId = Type.Object({ petId: Type.Integer({ minimum: 1 }) });

const store = databaseUrl.startsWith('postgres:') ? openPostgres(databaseUrl) : openSqlite(databaseUrl);

const app = fastify({ logger: logger === 'on' }).withTypeProvider<TypeBoxTypeProvider>();
await app.register(bearerAuth, {
  keys: [],
  auth: (key) => store.hasKey(hash('sha256', key, 'buffer')),
});

app.get('/v1/pets', { schema: { querystring: Page, response: { 200: Type.Array(Pet) } } }, async (request, reply) => {
  const { limit, status, cursor } = request.query;
  const after = cursor === undefined ? 0 : Number(Buffer.from(cursor, 'base64url').toString().slice('after:'.length));
  // One extra row shows whether a next page exists.
  const pets = await store.list(after, limit + 1, status);
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
  return (await store.find(request.params.petId)) ?? reply.callNotFound();
});

app.post('/v1/pets', { schema: { body: NewPet, response: { 201: Pet } } }, async (request, reply) => {
  const { name, categoryId, status = 'available' } = request.body;
  const pet = await store.add(name, categoryId, status);
  reply.code(201).header('location', `/v1/pets/${pet.id}`);
  return pet;
});

await app.listen({ port: Number(port), host: '127.0.0.1' });
