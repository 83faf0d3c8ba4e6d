/** The headers that announce the deprecation of operations on pets. */
import { deprecatedSince, sunset } from '../core/deprecation.ts';

/**
 * The headers Deprecation (RFC 9745: a structured-field date, in seconds) and Sunset (RFC 8594), with the links that both RFCs describe.
 * `base` ends in /v1. The operation has the tag Pets.
 */
export function deprecationHeaders(base: string, operationId: string): Record<string, string> {
  const origin = base.slice(0, -'/v1'.length);
  return {
    deprecation: `@${deprecatedSince.getTime() / 1000}`,
    sunset: sunset.toUTCString(),
    link: `<${base}/pets>; rel="successor-version", <${origin}/docs#animal-store/tag/pets/${operationId}>; rel="deprecation"; type="text/html"`,
  };
}
