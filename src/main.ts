/** The server. */
import { enableCompileCache, flushCompileCache } from 'node:module';
import { fileURLToPath } from 'node:url';
import './main/signals.ts';

// A third of a start is compiling. Beside the installed packages, where nobody else may write; where we may not either, nothing is kept.
// Not where coverage is measured, which what comes out of the cache would falsify.
const cacheFolder = fileURLToPath(new URL('../node_modules/.cache/animal-store', import.meta.url));
if (!process.env.NODE_V8_COVERAGE) enableCompileCache(cacheFolder);

// Not before signals are heeded: to load all the rest takes most of a start.
await import('./main/run.ts');

// Now, and not at the exit: a process that is killed shall start as quickly again.
flushCompileCache();
