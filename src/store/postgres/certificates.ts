/** When the certificates expire that the parameters of a URL name. */
import { X509Certificate } from 'node:crypto';
import type { Target } from './url.ts';

const certificate = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g;

/** In milliseconds since 1970. What cannot be read is left out: the first connection reports it. */
function expiriesIn(pem = ''): number[] {
  return (pem.match(certificate) ?? []).flatMap((text) => {
    try {
      return new X509Certificate(text).validToDate.getTime();
    } catch {
      return [];
    }
  });
}

/**
 * In milliseconds since 1970: when no authority of `ca` is valid any more, or a certificate of the client's chain is not; 0 if there is none. While an
 * authority is replaced, `ca` has the old and the new one.
 */
export function certificatesExpireAt(ssl: Target['ssl']): number {
  if (!ssl) return 0;
  const authorities = expiriesIn(ssl.ca);
  const latest = authorities.length > 0 ? [Math.max(...authorities)] : [];
  const ends = [...latest, ...expiriesIn(ssl.cert)];
  return ends.length > 0 ? Math.min(...ends) : 0;
}
