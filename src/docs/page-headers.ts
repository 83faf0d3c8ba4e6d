/** The headers of every page of this folder. */
import { standingHeaders } from '../http/responses.ts';

/** The pages load resources from their own origin only, have no inline scripts and styles, evaluate no strings as scripts and cannot be framed. */
const policy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self'",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ');

export const pageHeaders = {
  ...standingHeaders,
  'content-security-policy': policy,
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
};
