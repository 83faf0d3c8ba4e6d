/** Serves in this process, or supervises several that do. */
import cluster from 'node:cluster';
import { availableParallelism } from 'node:os';
import { openLog } from './log.ts';
import { serve } from './serve.ts';
import { loadConfig, openStore } from './start.ts';
import { supervise } from './supervise.ts';

const config = loadConfig();
const log = await openLog(config);
const { logger } = log;
const workers = config.WORKERS === 'auto' ? availableParallelism() : Number(config.WORKERS);

if (workers > 1 && cluster.isPrimary) {
  // A store that cannot be opened is told once, and migrated once.
  await (await openStore(config, logger)).close();
  await supervise(workers, config, logger);
} else await serve(config, log);
