/** The server. */
import { handleSignals, load } from './server/start.ts';

handleSignals();
// Loading the rest takes most of a start.
const { run } = await load(() => import('./server/serve.ts'));
await run();
