/** The use of API keys: what is counted of each key on each day, in UTC. */
import { dayMs } from './limits.ts';

/** How many days the counts are kept, including today. */
export const keptDays = 90;

/** The number of a day: days since 1970-01-01. `at`: in milliseconds. */
export const dayOf = (at: number) => Math.floor(at / dayMs);

/** The date of a day, such as 2026-11-23. */
export const dateOf = (day: number) => new Date(day * dayMs).toISOString().slice(0, 10);

/** Requests by the status of their response: 2xx and 304, 4xx except 429, 429, 5xx. */
export const outcomes = ['succeeded', 'clientErrors', 'rateLimited', 'serverErrors'] as const;
export type Outcome = (typeof outcomes)[number];

export function outcomeOf(status: number): Outcome {
  if (status < 400) return 'succeeded';
  if (status === 429) return 'rateLimited';
  return status < 500 ? 'clientErrors' : 'serverErrors';
}

export type Counts = Record<Outcome, number>;

export const requestsOf = (counts: Counts) => outcomes.reduce((sum, outcome) => sum + counts[outcome], 0);

/** Error responses that are kept of each key: the last ones. */
export const keptErrors = 10;

/** An error response, by what the log and the support need to find it. */
export interface KeyError {
  code: string;
  at: Date;
  /** The method and the path template, such as GET /v1/pets/{petId}. */
  operation: string;
  requestId: string;
}

/** A server's counts for a key on the day of `lastUsedAt`. A missing count is 0. */
export interface KeyUse extends Partial<Counts> {
  id: number;
  lastUsedAt: Date;
  /** Requests to deprecated operations. */
  deprecatedCalls: number;
  /** The last ones, in order, at most `keptErrors`. */
  errors?: KeyError[];
}

/** A day on which a key was used. */
export interface DayOfUse extends Counts {
  /** Such as 2026-11-23. */
  day: string;
  deprecatedCalls: number;
  lastError: Pick<KeyError, 'code' | 'at'> | null;
}
