/** The server. */
import './main/signals.ts';

// Not before signals are heeded: to load all the rest takes most of a start.
await import('./main/run.ts');
