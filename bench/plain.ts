/** The yardstick: the same operations with Fastify on SQLite or PostgreSQL, written as in its documentation. No cache, ETag, metrics or log. */
import { hash } from 'node:crypto';
import bearerAuth from '@fastify/bearer-auth';
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import { type Static, Type } from '@sinclair/typebox';
import Database from 'better-sqlite3';
import fastify from 'fastify';
import pg from 'pg';

const url = process.env.DATABASE_URL as string;

const Status = Type.Unsafe<string>({ type: 'string', enum: ['available', 'pending', 'sold'] });
const properties = { name: Type.String({ minLength: 1 }), categoryId: Type.Integer() };
const NewPet = Type.Object(
  { ...properties, status: Type.Optional({ ...Status, default: 'available' }) },
  { additionalProperties: false },
);
const Pet = Type.Object({ id: Type.Integer(), ...properties, status: Status });
const Page = Type.Object({
  limit: Type.Integer({ minimum: 1, maximum: 100, default: 20 }),
  status: Type.Optional(Status),
  cursor: Type.Optional(Type.String()),
});

const columns = 'id, name, category_id AS "categoryId", status';
/** With PostgreSQL's placeholders. */
const statements = {
  key: 'SELECT 1 AS id FROM api_key WHERE hash = $1 AND revoked_at IS NULL',
  list: `SELECT ${columns} FROM pet WHERE id > $1 ORDER BY id LIMIT $2`,
  listByStatus: `SELECT ${columns} FROM pet WHERE status = $1 AND id > $2 ORDER BY status, id LIMIT $3`,
  find: `SELECT ${columns} FROM pet WHERE id = $1`,
  add: `INSERT INTO pet (name, category_id, status) VALUES ($1, $2, $3) RETURNING ${columns}`,
};
type Row = Static<typeof Pet>;
type Query = (name: keyof typeof statements, ...values: unknown[]) => Row[] | Promise<Row[]>;

function openSqlite(): Query {
  const database = new Database(url.slice('sqlite:'.length));
  database.pragma('journal_mode = WAL');
  // better-sqlite3 is compiled to use NORMAL in WAL mode by default.
  database.pragma('synchronous = FULL');
  const entries = Object.entries(statements).map(([name, text]) => [
    name,
    database.prepare(text.replace(/\$\d/g, '?')),
  ]);
  const prepared: Record<string, Database.Statement> = Object.fromEntries(entries);
  return (name, ...values) => prepared[name]?.all(...values) as Row[];
}

/** A pool of 10, which is the default of `pg`, as of the animal store. The ids come from a sequence, and no trigger of the animal store runs. */
async function openPostgres(): Promise<Query> {
  // Integers as numbers, as JSON.stringify needs them.
  pg.types.setTypeParser(pg.types.builtins.INT8, Number);
  const pool = new pg.Pool({ connectionString: url });
  await pool.query(`CREATE SEQUENCE IF NOT EXISTS plain_id; SELECT setval('plain_id', (SELECT max(id) FROM pet));
    ALTER TABLE pet DISABLE TRIGGER USER, ALTER id SET DEFAULT nextval('plain_id')`);
  return async (name, ...values) => (await pool.query<Row>({ name, text: statements[name], values })).rows;
}

const query = url.startsWith('sqlite:') ? openSqlite() : await openPostgres();

const app = fastify().withTypeProvider<TypeBoxTypeProvider>();
await app.register(bearerAuth, {
  keys: [],
  auth: async (key) => (await query('key', hash('sha256', key, 'buffer'))).length > 0,
});

app.get('/v1/pets', { schema: { querystring: Page, response: { 200: Type.Array(Pet) } } }, async (request, reply) => {
  const { limit, status, cursor = '' } = request.query;
  const after = Number(Buffer.from(cursor, 'base64url').toString().slice('after:'.length));
  // One extra row shows whether a next page exists.
  const pets = await (status ? query('listByStatus', status, after, limit + 1) : query('list', after, limit + 1));
  const first = `/v1/pets?limit=${limit}${status ? `&status=${status}` : ''}`;
  const links = [`<${first}>; rel="first"`];
  if (pets.length > limit) {
    pets.pop();
    const next = Buffer.from(`after:${pets.at(-1)?.id}`).toString('base64url');
    links.unshift(`<${first}&cursor=${next}>; rel="next"`);
  }
  reply.header('link', links.join(', '));
  return pets;
});

const params = Type.Object({ petId: Type.Integer({ minimum: 1 }) });
app.get('/v1/pets/:petId', { schema: { params, response: { 200: Pet } } }, async (request, reply) => {
  const [pet] = await query('find', request.params.petId);
  return pet ?? reply.callNotFound();
});

app.post('/v1/pets', { schema: { body: NewPet, response: { 201: Pet } } }, async (request, reply) => {
  const { name, categoryId, status = 'available' } = request.body;
  const [pet] = await query('add', name, categoryId, status);
  reply.code(201).header('location', `/v1/pets/${pet?.id}`);
  return pet as Row;
});

await app.listen({ port: Number(process.env.PORT), host: '127.0.0.1' });
