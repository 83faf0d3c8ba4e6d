/** How to fix each error, in Markdown: the page shows it beside the message. */
import type { ErrorCode } from '../../src/core/errors.ts';

export const remedies: Readonly<Record<Exclude<ErrorCode, 'forbidden'>, string>> = {
  bad_request: 'Use a common HTTP client: this one, or a proxy on the way, sends faulty HTTP.',
  invalid_url: 'Encode path and query as UTF-8 with `%`, as `encodeURIComponent` does.',
  invalid_parameter: 'Correct the parameter that the message names.',
  invalid_cursor: 'Request the first page, and follow `rel="next"` from there.',
  invalid_json: 'Write the body with a JSON library.',
  invalid_body: 'Correct the field that the message names.',
  missing_api_key: 'Send the header, with the word `Bearer` before the key.',
  invalid_api_key:
    'Check that the whole key was copied, and that it is one of this deployment: `ast_live_` in production, otherwise `ast_test_`.',
  expired_api_key: 'Make a new key. Rotate it before it expires, or choose a longer time.',
  revoked_api_key: 'Make a new key.',
  insufficient_scope: 'Make a key with the scope that the message names.',
  route_not_found: 'Check the path: it begins with the address above, and has no slash at its end.',
  pet_not_found: 'Check the id.',
  method_not_allowed: 'Use a method of the `Allow` header.',
  request_timeout: 'Retry, on a better connection or with a smaller body.',
  operation_removed: 'List animals, and follow the pages until the id or a greater one appears.',
  precondition_failed: 'Send the request without these headers, if you still want it.',
  payload_too_large: 'Send a smaller body.',
  uri_too_long: 'Send fewer or shorter parameters.',
  unsupported_media_type: 'Set the header that the message names, and do not compress the body.',
  expectation_failed: 'Leave out the header `Expect`.',
  idempotency_key_reused: 'Use a new key for a new animal, and the same body for a retry.',
  rate_limited: 'Wait, then retry.',
  headers_too_large: 'Send fewer or shorter headers.',
  internal_error: 'Give the operator the request id. Retry a `POST` only with its `Idempotency-Key`.',
  not_implemented: 'Do not call this operation.',
  service_unavailable: 'Wait, then retry; a `POST` with the same `Idempotency-Key`.',
};
