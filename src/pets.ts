/** The animals: their schemas (which are also their types) and what a store of them must do. */
import { type Static, Type } from '@sinclair/typebox';
import type { Retry } from './idempotency.ts';
import { Int64 } from './int64.ts';
import { isStorable, kind } from './schema.ts';

export const statuses = ['available', 'pending', 'sold'] as const;

export const PetStatus = kind<(typeof statuses)[number]>(
  'PetStatus',
  (value) => statuses.includes(value as never),
  `be one of ${statuses.join(', ')}`,
  { title: 'PetStatus', description: 'Availability of an animal.', type: 'string', enum: statuses },
);
export type PetStatus = Static<typeof PetStatus>;

const PetName = kind<string>(
  'PetName',
  (value) => isStorable(value) && value !== '',
  'be a string of at least 1 character, without NUL and without lone surrogates',
  {
    type: 'string',
    minLength: 1,
    pattern: '^[^\\u0000]+$',
    description: "The animal's name, kept exactly as given. NUL and lone surrogates are refused.",
    examples: ['Biscuit'],
  },
);

export const NewPet = Type.Object(
  {
    name: PetName,
    categoryId: Int64({ description: 'Identifier of the category the animal belongs to.', examples: [7] }),
    status: Type.Optional({ ...PetStatus, default: 'available' }),
  },
  { title: 'NewPet', description: 'An animal to add.', additionalProperties: false },
);
export type NewPet = Required<Static<typeof NewPet>>;

export const Pet = Type.Object(
  {
    id: Int64({ description: 'Unique identifier, assigned on creation from 1 up, below 2^53.', examples: [1] }),
    ...NewPet.properties,
    status: Type.Optional(PetStatus),
  },
  { title: 'Pet', description: 'An animal of the store.', additionalProperties: false },
);

export const Pets = Type.Array(Pet, { title: 'Pets', description: 'A page of animals, in ascending order of id.' });

export interface PetQuery {
  /** Rows at most, 1 to 100. */
  limit: number;
  status?: PetStatus | undefined;
  /** Only animals with an id above this one. */
  after: bigint;
}

/** An animal as the JSON text of schema Pet: exact to the last digit, and the same bytes in every answer. */
export type PetJson = string;

export interface PetPage {
  /** In ascending order of id. */
  pets: PetJson[];
  /** The id of the last one here, where another that fits the query follows it. */
  next: bigint | undefined;
}

/** `added`: a new animal. `replayed`: the animal of an earlier call under the same key. `reused`: that key had another body. */
export type Addition = { outcome: 'added' | 'replayed'; id: bigint; pet: PetJson } | { outcome: 'reused' };

/** What a store tells of itself, to decide what is still as it was read. The same object for as long as both numbers are the same. */
export interface StoreState {
  /** Another whenever something may have been written, by this process or another. */
  version: number;
  /** Another only when an animal was changed or removed, or added below the highest id. */
  revision: number;
}

/** Every method rejects, or throws, with ApiError `service_unavailable` where the store cannot answer. Reads are promises where they take a round trip. */
export interface Pets {
  list(query: PetQuery): Promise<PetPage> | PetPage;
  /** Resolves only when the animal is on disk. */
  add(pet: NewPet, retry?: Retry): Promise<Addition>;
  find(id: bigint): Promise<PetJson | undefined> | PetJson | undefined;
  /** Absent where only a round trip could tell: then no response is kept. */
  state?: () => StoreState;
  /** Lets the next read see what was committed until now. Absent where each read does. */
  refresh?: () => void;
}

/** The bytes that SQLite's json_object() gives, which escapes what JSON.stringify does and nothing else. */
export function petJson(
  id: bigint | number | string,
  name: string,
  categoryId: bigint | string,
  status: string,
): PetJson {
  return `{"id":${id},"name":${JSON.stringify(name)},"categoryId":${categoryId},"status":"${status}"}`;
}
