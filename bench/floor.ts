/** The floor: Fastify with fixed answers, and its own JSON parser. No validation, no database, no log. */
import fastify from 'fastify';

const authorization = `Bearer ${process.env.KEY}`;
const pet = { id: 5000, name: 'pet 5000', categoryId: 7, status: 'available' };
const pages = new Map([5, 20, 50, 100].map((limit) => [String(limit), JSON.stringify(Array(limit).fill(pet))]));
const one = JSON.stringify(pet);

const app = fastify();
app.addHook('onRequest', (request, reply, done) => {
  reply.type('application/json');
  if (request.headers.authorization === authorization) done();
  else reply.code(401).send('{"code":"missing_api_key","message":"Send an API key.","status":401}');
});
app.get<{ Querystring: { limit?: string } }>('/v1/pets', (request, reply) => {
  reply.send(pages.get(request.query.limit ?? '20'));
});
app.get('/v1/pets/:petId', (_request, reply) => void reply.send(one));
app.post('/v1/pets', (_request, reply) => void reply.code(201).send(one));
await app.listen({ port: Number(process.env.PORT), host: '127.0.0.1' });
