/** Pets: their schemas, which also define their types, and the interface of a store. */
import { type Static, Type } from '@sinclair/typebox';
import type { KeyRejection } from './accounts.ts';
import type { Retry } from './idempotency.ts';
import { Int64 } from './int64.ts';
import { inDigits, limits } from './limits.ts';
import { isStorable, kind } from './schema.ts';

export const statuses = ['available', 'pending', 'sold'] as const;

export const PetStatus = kind<(typeof statuses)[number]>(
  'PetStatus',
  (value) => statuses.includes(value as never),
  `be one of ${statuses.join(', ')}`,
  {
    title: 'PetStatus',
    description: 'Availability of an animal.',
    type: 'string',
    enum: statuses,
    examples: ['available'],
  },
);
export type PetStatus = Static<typeof PetStatus>;

const maxName = limits.petNameCharacters;

/** JSON Schema counts code points, of which each has at most two UTF-16 units. */
function isName(value: unknown): boolean {
  if (!isStorable(value) || value === '' || value.length > 2 * maxName) return false;
  return value.length <= maxName || [...value].length <= maxName;
}

// Not \u0000: RE2 and PCRE reject it.
const storedName = { minLength: 1, pattern: '^[^\\x00]+$', examples: ['Biscuit'] };

const PetName = kind<string>(
  'PetName',
  isName,
  `be a string of 1 to ${inDigits(maxName)} characters, without NUL and without lone surrogates`,
  {
    type: 'string',
    ...storedName,
    maxLength: maxName,
    description: "The animal's name, stored exactly as given. NUL and lone surrogates are rejected.",
  },
);

export const NewPet = Type.Object(
  {
    name: PetName,
    categoryId: Int64({
      description:
        'Identifier of the category the animal belongs to. It may exceed 2^53, beyond which JavaScript rounds numbers: there read it with a reviver of JSON.parse, as BigInt(context.source).',
      examples: [7],
    }),
    status: Type.Optional({ ...PetStatus, default: 'available' }),
  },
  { title: 'NewPet', description: 'An animal to add.', additionalProperties: false },
);
export type NewPet = Required<Static<typeof NewPet>>;

export const Pet = Type.Object(
  {
    id: {
      ...Int64({ description: 'Unique identifier, assigned on creation and never reused.', examples: [1] }),
      minimum: 1,
      maximum: Number.MAX_SAFE_INTEGER,
    },
    ...NewPet.properties,
    name: Type.String({
      ...storedName,
      description: "The animal's name, exactly as given. Earlier releases accepted longer names.",
    }),
    status: Type.Optional(PetStatus),
  },
  {
    title: 'Pet',
    // The interface does not require status, so the schema cannot.
    description:
      'An animal in the store. Every response has its status, although the schema does not require it. More fields may be added.',
  },
);

/** Pets of a page. */
export const maxPage = 100;

export const Pets = Type.Array(Pet, {
  title: 'Pets',
  description: 'A page of animals, in ascending order of id.',
  maxItems: maxPage,
});

export interface PetQuery {
  /** Maximum number of pets, 1 to `maxPage`. */
  limit: number;
  status?: PetStatus | undefined;
  /** Only pets with a greater id. */
  after: bigint;
}

/** The state of the store at a read or before it, opaque to others. If two equal reads at the same time have the same state (===), either result is right for both. */
export type StoreState = unknown;

/** A pet as the JSON text of schema Pet, with exact integers and the same bytes in every response. */
export type PetJson = string;

export interface PetPage {
  /** In ascending order of id. */
  pets: PetJson[];
  /** The last pet's id if more matching pets follow; otherwise undefined. */
  next: bigint | undefined;
  state: StoreState;
}

export interface FoundPet {
  /** Undefined: there is none with this id. */
  pet: PetJson | undefined;
  state: StoreState;
}

/**
 * `added`: a new pet. `replayed`: the pet that an earlier request with this Idempotency-Key created. `reused`: that request had another body.
 * Otherwise the API key has ended meanwhile, and nothing was added.
 */
export type Addition =
  | { outcome: 'added' | 'replayed'; id: bigint; pet: PetJson }
  | { outcome: 'reused' | KeyRejection };

/**
 * Every method rejects with ApiError `service_unavailable` if the store is unavailable. A read sees every write that was acknowledged before it was
 * called, by any process: the handler of a request may call it in any phase of the event loop.
 */
export interface Pets {
  list(query: PetQuery): Promise<PetPage>;
  /** Resolves only when the pet is on disk. `keyId`: the API key that adds it, which is checked again; undefined: the operator. */
  add(pet: NewPet, retry?: Retry, keyId?: number): Promise<Addition>;
  find(id: bigint): Promise<FoundPet>;
  /** Whether the read that returned this state would return the same now. */
  isCurrent(state: StoreState): Promise<boolean>;
}

/** Returns the same bytes as SQLite's json_object(), which escapes exactly what JSON.stringify escapes. */
export function petJson(
  id: bigint | number | string,
  name: string,
  categoryId: bigint | number | string,
  status: string,
): PetJson {
  return `{"id":${id},"name":${JSON.stringify(name)},"categoryId":${categoryId},"status":"${status}"}`;
}
