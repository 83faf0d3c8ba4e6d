/** listPets, createPet, getPet: the three operations on animals. */
import { Type } from '@sinclair/typebox';
import type { onRequestHookHandler } from 'fastify';
import type { ApiKey } from '../accounts.ts';
import { Failure } from '../errors.ts';
import { Int64 } from '../int64.ts';
import { NewPet, Pet, PetStatus, Pets } from '../pets.ts';
import { demand } from '../schema.ts';
import { accept, answer } from './answers.ts';
import type { App } from './app-type.ts';
import { requireScope } from './auth.ts';
import { announceDeprecation, refuseAfterSunset, sunset } from './deprecation.ts';
import { IdempotencyHeaders, retryOf } from './idempotency.ts';
import type { KeyUses } from './key-uses.ts';
import { refuseOtherMethods } from './methods.ts';
import { bodyErrors } from './operation.ts';
import { Cursor } from './paging.ts';
import type { PetAnswers } from './pet-answers.ts';

export interface PetsOptions {
  pets: Pets;
  answers: PetAnswers;
  uses: KeyUses;
  /** What the addresses in answers start with: the public base address, or its path. Ends in /v1. */
  base: string;
  /** Whether getPet has been removed by now. */
  removed: () => boolean;
}

const ListQuery = Type.Object({
  limit: Type.Integer({
    ...demand('be an integer from 1 to 100'),
    minimum: 1,
    maximum: 100,
    default: 20,
    description: 'Maximum number of animals returned.',
  }),
  status: Type.Optional({ ...PetStatus, description: 'Only animals of this availability.' }),
  cursor: Type.Optional(Cursor),
});

const PetParams = Type.Object({ petId: Int64({ description: 'Identifier of the animal to return.', examples: [1] }) });

export function petRoutes(app: App, { pets, answers, uses, base, removed }: PetsOptions): void {
  app.get(
    '/pets',
    {
      onRequest: requireScope('pets:read'),
      schema: { querystring: ListQuery },
      config: {
        operation: {
          operationId: 'listPets',
          tags: ['Pets'],
          summary: 'List all animals',
          description:
            'Animals in ascending order of id, a page at a time. Follow the Link header with rel="next" until it is absent: the walk shows each animal exactly once, those added meanwhile at its end.',
          success: { status: 200, schema: Pets, description: 'A page of animals.', headers: ['Link', 'ETag'] },
          errors: ['invalid_parameter', 'invalid_cursor', 'insufficient_scope'],
        },
      },
    },
    async (request, reply) => {
      const { limit, status, cursor: after = 0n } = request.query;
      return answer(request, reply, await answers.page({ limit, status, after }));
    },
  );

  app.post(
    '/pets',
    {
      onRequest: requireScope('pets:write'),
      schema: { headers: IdempotencyHeaders, body: NewPet },
      config: {
        operation: {
          operationId: 'createPet',
          tags: ['Pets'],
          summary: 'Add an animal',
          description:
            'The answer is sent when the animal is on disk. A 5xx, a time-out or a cut connection means that the outcome is unknown: send the request again with the same Idempotency-Key.',
          success: {
            status: 201,
            schema: Pet,
            description: 'The animal was added.',
            headers: ['Location', 'Idempotent-Replayed'],
          },
          errors: [...bodyErrors, 'insufficient_scope', 'unsupported_media_type', 'idempotency_key_reused'],
        },
      },
    },
    async (request, reply) => {
      const addition = await pets.add(request.body as NewPet, retryOf(request));
      if (addition.outcome === 'reused') throw new Failure('idempotency_key_reused');
      const { id, pet, outcome } = addition;
      if (outcome === 'replayed') reply.header('idempotent-replayed', 'true');
      if (!removed()) reply.header('location', `${base}/pets/${id}`);
      return accept(reply, 201, pet);
    },
  );

  const onSend = announceDeprecation(base);
  const countCall: onRequestHookHandler = (request, _reply, done) => {
    uses.countDeprecated(request.apiKey as ApiKey);
    done();
  };
  app.get(
    '/pets/:petId',
    {
      onSend,
      onRequest: [countCall, refuseAfterSunset(removed), requireScope('pets:read')],
      schema: { params: PetParams },
      config: {
        operation: {
          operationId: 'getPet',
          tags: ['Pets'],
          summary: 'Get an animal',
          description:
            'Deprecated: removed on 5 December 2030, and answered 410 from then on. Use GET /pets with the status filter.',
          sunset,
          success: { status: 200, schema: Pet, description: 'The animal.', headers: ['ETag'] },
          errors: ['invalid_parameter', 'insufficient_scope', 'pet_not_found', 'operation_removed'],
        },
      },
    },
    async (request, reply) => answer(request, reply, await answers.animal(request.params.petId)),
  );

  refuseOtherMethods(app, '/pets', ['GET', 'HEAD', 'POST']);
  refuseOtherMethods(app, '/pets/:petId', ['GET', 'HEAD'], [onSend]);
}
