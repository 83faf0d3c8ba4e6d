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

/** Clients may retry after one second. */
const retrySoon = { 'retry-after': '1' };

/** The additional headers of an error. */
export function headersOf(error: ApiError): Readonly<Record<string, string>> {
  if (error instanceof HttpError) return error.headers;
  return error.code === 'service_unavailable' ? retrySoon : {};
}
