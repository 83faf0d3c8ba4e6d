/** Errors whose response has additional headers. */
import { ApiError, type ErrorCode } from '../core/errors.ts';

/** An ApiError whose response has additional headers. */
export class HttpError extends ApiError {
  readonly headers: Readonly<Record<string, string>>;

  constructor(code: ErrorCode, headers: Record<string, string>, message?: string) {
    super(code, message);
    this.headers = headers;
  }
}

/** 429 with the time to wait, in whole seconds and at least one. */
export const rateLimited = (waitMs: number, message?: string) =>
  new HttpError('rate_limited', { 'retry-after': String(Math.max(1, Math.ceil(waitMs / 1000))) }, message);

/** Clients may retry after one second. */
const retrySoon = { 'retry-after': '1' };

/** The additional headers of an error. */
export function headersOf(error: ApiError): Readonly<Record<string, string>> {
  if (error instanceof HttpError) return error.headers;
  return error.code === 'service_unavailable' ? retrySoon : {};
}
