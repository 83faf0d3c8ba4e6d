/** What the errors of SQLite mean to a client. */
import { unavailable } from './unavailable.ts';

// Primary result codes (https://sqlite.org/rescode.html) that tell of the disk, the file or another process, not of a bug of ours.
const passing = /^SQLITE_(BUSY|LOCKED|NOMEM|READONLY|IOERR|CORRUPT|FULL|CANTOPEN|PROTOCOL|NOTADB)(_|$)/;

/** What a driver's error means to a client: `service_unavailable` where it may pass, otherwise the error itself. */
export function translate(error: unknown): unknown {
  if (!passing.test(String((error as { code?: unknown }).code))) return error;
  return unavailable(error);
}
