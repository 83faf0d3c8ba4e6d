/** Serves in this process, or supervises several that do. */
import cluster from 'node:cluster';
import { availableParallelism } from 'node:os';
import { serve } from './serve.ts';
import { loadConfig, openLog, openStore } from './start.ts';
import { supervise } from './supervise.ts';

const config = loadConfig();
const logger = await openLog(config);
const workers = config.WORKERS === 'auto' ? availableParallelism() : Number(config.WORKERS);

if (workers > 1 && cluster.isPrimary) {
  // A store that cannot be opened is told once, and migrated once.
  await (await openStore(config, logger)).close();
  await supervise(workers, config, logger);
} else await serve(config, logger);
