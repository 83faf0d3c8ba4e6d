/** The server. */
import './main/signals.ts';
import { load } from './main/load.ts';

// Not before signals are heeded: to load all the rest takes most of a start.
await load(() => import('./main/run.ts'));
