/** The operations on pets: their routes, with what the documents say of each. */
import { Type } from '@sinclair/typebox';
import type { FastifyReply, onRequestHookHandler } from 'fastify';
import { dateText, deprecatedSince, isRemoved, sunset } from '../core/deprecation.ts';
import { ApiError } from '../core/errors.ts';
import { Int64 } from '../core/int64.ts';
import { limits } from '../core/limits.ts';
import { maxPage, NewPet, Pet, type PetQuery, PetStatus, Pets, type StoreState } from '../core/pets.ts';
import { requirement } from '../core/schema.ts';
import { keyOf, missingScope, rejectedKey, requireScope } from '../http/auth.ts';
import { type App, bodyErrors, type Operation } from '../http/operation.ts';
import { asBody, type Representation, represent, sendRepresentation } from '../http/responses.ts';
import { Cursor, pageLinks } from './paging.ts';

/** What was read, from which its response is made. */
export interface PetRead {
  state: StoreState;
  represent: () => Representation;
}

/** The reads reject with ApiError `service_unavailable` if the store cannot be read, and `pet` with `pet_not_found`. */
export interface PetReads {
  page(query: PetQuery): Promise<PetRead>;
  pet(id: bigint): Promise<PetRead>;
}

export type CachedReads = {
  [Name in keyof PetReads]: (...input: Parameters<PetReads[Name]>) => Promise<Representation>;
};

interface PetOptions {
  /** Caches the reads. */
  cacheReads?: ((app: App, reads: PetReads) => CachedReads) | undefined;
}

const cacheNothing = (_app: App, reads: PetReads): CachedReads => ({
  page: async (query) => (await reads.page(query)).represent(),
  pet: async (id) => (await reads.pet(id)).represent(),
});

/** The routes for pets. They need an API key. */
export async function pets(app: App, { cacheReads = cacheNothing }: PetOptions): Promise<void> {
  const { config, store } = app;
  const { base } = config;
  const reads = cacheReads(app, {
    async page(query) {
      const { pets: found, next, state } = await store.pets.list(query);
      const headers = { link: pageLinks(base, query, next) };
      return { state, represent: () => represent(`[${found.join()}]`, { headers, next }) };
    },
    async pet(id) {
      const { pet, state } = await store.pets.find(id);
      if (pet === undefined) throw new ApiError('pet_not_found');
      return { state, represent: () => represent(pet) };
    },
  });
  listPets(app, '/pets', reads);
  createPet(app, '/pets');
  getPet(app, '/pets/:petId', reads);
}

const ListQuery = Type.Object({
  limit: Type.Integer({
    ...requirement(`be an integer from 1 to ${maxPage}`),
    minimum: 1,
    maximum: maxPage,
    default: 20,
    description: 'Maximum number of animals returned.',
  }),
  status: Type.Optional({ ...PetStatus, description: 'Only animals with this status.' }),
  cursor: Type.Optional(Cursor),
});

const PetParams = Type.Object({ petId: Int64({ description: 'Identifier of the animal to return.', examples: [1] }) });

// The animals of the examples in openapi.yaml, in the order in which they are added.
const biscuit = { id: 1, name: 'Biscuit', categoryId: 7, status: 'available' };
const crumb = { id: 2, name: 'Crumb', categoryId: 7, status: 'sold' };
/** The first even number beyond 2^53: tools that read the document with JavaScript's numbers show it unchanged. */
const moth = { id: 3, name: 'Moth', categoryId: 9007199254740994, status: 'available' };

const listing: Operation = {
  operationId: 'listPets',
  tags: ['Pets'],
  summary: 'List all animals',
  description:
    'Returns animals in ascending order of id, one page at a time. Follow the Link header with rel="next" until it is absent. The pages contain each animal exactly once; animals added meanwhile come last.',
  scope: 'pets:read',
  success: { status: 200, schema: Pets, description: 'A page of animals.', headers: ['Link'] },
  errors: ['invalid_cursor'],
  examples: {
    'first-page': { summary: 'The first page', parameters: { limit: 2 }, answer: [biscuit, crumb] },
    'next-page': {
      summary: 'The next page',
      parameters: { limit: 2, cursor: 'YWZ0ZXI6Mg' },
      answer: [moth],
    },
    sold: { summary: 'Sold animals', parameters: { limit: 100, status: 'sold' }, answer: [crumb] },
    none: { summary: 'No animal has the status', parameters: { status: 'pending' }, answer: [] },
  },
};

/** Of the JSON of an animal, whose characters have up to four bytes (RFC 3629, section 3). Escapes such as \u001f have six: they count after the read. */
const maxPetBytes = 4 * limits.petNameCharacters + 100;

/** Until its client has read it, a page counts as one more request in flight for each 64 KiB: many pages would fill the memory. */
function count(reply: FastifyReply, bytes: number): void {
  const refusal = reply.server.reserve(reply, 1 + bytes / (64 * 1024));
  if (refusal) throw refusal;
}

/** Adds GET at `url`. */
function listPets(app: App, url: string, reads: CachedReads): void {
  app.get(
    url,
    {
      onRequest: requireScope('pets:read'),
      schema: { querystring: ListQuery },
      config: { operation: listing },
    },
    async (request, reply) => {
      const { limit, status, cursor: after = 0n } = request.query;
      // Before the read, what the page may weigh; then what it does.
      count(reply, limit * maxPetBytes);
      const page = await reads.page({ limit, status, after });
      count(reply, page.found.body?.length ?? 0);
      sendRepresentation(reply, page);
    },
  );
}

const creation: Operation = {
  operationId: 'createPet',
  tags: ['Pets'],
  summary: 'Add an animal',
  description:
    'The animal is on disk before the response is sent. After a 5xx status, a time-out or a lost connection, the outcome is unknown: send the request again with the same Idempotency-Key.',
  scope: 'pets:write',
  success: {
    status: 201,
    schema: Pet,
    description: 'The animal was added.',
    headers: ['Location', 'Idempotent-Replayed'],
    links: {
      listPets: {
        operationId: 'listPets',
        description: 'Lists the animals with the status of the new one.',
        parameters: { status: '$response.body#/status' },
      },
      getPet: {
        operationId: 'getPet',
        description: `Fetches the new animal, until ${dateText(sunset)}.`,
        parameters: { petId: '$response.body#/id' },
      },
    },
  },
  errors: [...bodyErrors, 'unsupported_media_type', 'idempotency_key_reused'],
  examples: {
    smallest: { summary: 'Required fields only', body: { name: 'Biscuit', categoryId: 7 }, answer: biscuit },
    full: {
      summary: 'All fields, and safe to retry',
      parameters: { 'Idempotency-Key': '7d9f0d3a-1f0b-4c56-9f8e-2f1c7c1f0e55' },
      body: { name: 'Crumb', categoryId: 7, status: 'sold' },
      answer: crumb,
    },
    'beyond-2-53': {
      summary: 'A categoryId beyond 2^53',
      body: { name: 'Moth', categoryId: moth.categoryId },
      answer: moth,
    },
  },
};

/** A retry with the same key and the same body returns the first response again. */
const IdempotencyHeaders = Type.Object({
  'Idempotency-Key': Type.Optional(
    Type.String({
      ...requirement('be 1 to 255 visible ASCII characters, given once'),
      minLength: 1,
      maxLength: 255,
      pattern: '^[!-~]+$',
      description:
        "A value that you choose, unique in your account. Retried creates don't create duplicates: the same key with the same body within 24 hours returns the first response again, with Idempotent-Replayed: true.",
      examples: ['7d9f0d3a-1f0b-4c56-9f8e-2f1c7c1f0e55'],
    }),
  ),
});

/** Adds POST at `url`. */
function createPet(app: App, url: string): void {
  const { config, now, store } = app;
  app.post(
    url,
    {
      onRequest: requireScope('pets:write'),
      schema: { headers: IdempotencyHeaders, body: NewPet },
      config: { operation: creation },
    },
    async (request, reply) => {
      const { id: keyId, accountId } = keyOf(request);
      const { 'idempotency-key': key } = request.headers;
      const retry = key === undefined ? undefined : { accountId, key };
      const addition = await store.pets.add(request.body as NewPet, retry, keyId);
      const { outcome } = addition;
      if (outcome === 'reused') throw new ApiError('idempotency_key_reused');
      if (outcome === 'insufficient_scope') throw missingScope('pets:write');
      if (outcome !== 'added' && outcome !== 'replayed') throw rejectedKey(outcome);
      const headers = {
        'cache-control': 'no-store',
        'content-type': 'application/json',
        ...(outcome === 'replayed' && { 'idempotent-replayed': 'true' }),
        ...(!isRemoved(now(), config.enforceSunset) && { location: `${config.base}/pets/${addition.id}` }),
      };
      return reply.sendResponse({ status: 201, headers, body: asBody(addition.pet) });
    },
  );
}

const fetching: Operation = {
  operationId: 'getPet',
  tags: ['Pets'],
  summary: 'Get an animal',
  description: `From ${dateText(sunset)} on, it returns 410. Its replacement is GET /pets with the status filter.\n\nTo find one animal by its id, follow the pages of its status until the id appears or a greater one does: one request per ${maxPage} animals (examples/find.js in the repository does this). If you need animals often, read all pages once and keep them by id.\n\nEvery response, errors included, has the headers Deprecation, Sunset and Link; only an error that comes before the server has read the path lacks them.`,
  scope: 'pets:read',
  sunset,
  success: { status: 200, schema: Pet, description: 'The animal.' },
  errors: ['invalid_url', 'pet_not_found', 'operation_removed'],
  examples: {
    found: { summary: 'An animal', parameters: { petId: 1 }, answer: biscuit },
    pet_not_found: { summary: 'No animal has this id', parameters: { petId: 404 } },
  },
};

/**
 * The headers Deprecation (RFC 9745: a structured-field date, in seconds) and Sunset (RFC 8594), with the links that both RFCs describe.
 * `base` ends in /v1.
 */
export function deprecationHeaders(base: string): Record<string, string> {
  const origin = base.slice(0, -'/v1'.length);
  return {
    deprecation: `@${deprecatedSince.getTime() / 1000}`,
    sunset: sunset.toUTCString(),
    link: `<${base}/pets>; rel="successor-version", <${origin}/docs#animal-store/tag/pets/getPet>; rel="deprecation"; type="text/html"`,
  };
}

/** Adds GET at `url`, which ends in `:petId`. Every response there carries the deprecation headers. */
function getPet(app: App, url: string, reads: CachedReads): void {
  const { config, now } = app;
  const removed = () => isRemoved(now(), config.enforceSunset);
  const headers = deprecationHeaders(config.base);
  const removeAtSunset: onRequestHookHandler = (_request, _reply, done) => {
    done(removed() ? new ApiError('operation_removed') : undefined);
  };
  app.get(
    url,
    {
      onRequest: [removeAtSunset, requireScope('pets:read')],
      schema: { params: PetParams },
      config: { headers, removed, operation: fetching },
    },
    async (request, reply) => {
      sendRepresentation(reply, await reads.pet(request.params.petId));
    },
  );
}
