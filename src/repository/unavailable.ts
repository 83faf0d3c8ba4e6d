/** The failure of a store that cannot answer now, and may soon. */
import { Failure } from '../errors.ts';

export function unavailable(cause: unknown): Failure {
  return new Failure('service_unavailable', undefined, { headers: { 'retry-after': '1' }, cause });
}
