/** One serving process: store → app → listen; a signal → drain → close → exit. */
import cluster from 'node:cluster';
import { readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import type { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type { FastifyInstance } from 'fastify';
import { buildApp } from '../app.ts';
import type { Config } from '../config.ts';
import { sunsetWarning } from '../http/deprecation.ts';
import { createMetrics, type Metrics } from '../http/metrics.ts';
import { buildOps } from '../http/ops.ts';
import type { Repository } from '../repository/repository.ts';
import { shareMetrics } from './cluster-metrics.ts';
import { giveFirstKey } from './first-key.ts';
import { listen, openOps } from './listen.ts';
import type { Log } from './log.ts';
import { onEndSignal } from './signals.ts';
import { openStore, refuseToStart, release } from './start.ts';

/** Above the time-out of a request, so that one that never completes is answered 408 and the exit is still 0. */
const stopDeadlineMs = 12_000;

const now = () => new Date();

interface Parts {
  config: Config;
  log: Log;
  store: Repository;
  metrics: Metrics;
  draining: () => boolean;
}

function build({ config, log, store, metrics, draining }: Parts): Promise<FastifyInstance> {
  const at = (name: string) => new URL(`../../${name}`, import.meta.url);
  const readDocument = (name: string) => readFileSync(at(name), 'utf8');
  return buildApp({
    store,
    logger: log.logger,
    logRequest: log.logRequest,
    metrics,
    now,
    live: config.DEPLOYMENT === 'production',
    baseUrl: config.BASE_URL,
    quickstartBasePath: config.QUICKSTART_BASE_PATH === 'off' ? undefined : config.QUICKSTART_BASE_PATH,
    enforceSunset: config.SUNSET_ENFORCE === 'true',
    limits: {
      maxInFlight: config.MAX_IN_FLIGHT,
      maxConnections: config.MAX_CONNECTIONS,
      requestsPerMinute: config.RATE_LIMIT,
      refusalsPerMinute: config.REFUSAL_LIMIT,
    },
    trustProxy: config.TRUST_PROXY?.split(','),
    corsOrigins: config.CORS_ORIGINS?.split(','),
    draining,
    documents: { animalStore: readDocument('openapi.yaml'), quickstart: readDocument('openapi.quickstart.yaml') },
    readPageFile: (name) => readFile(at(`reference/${name}`)),
  });
}

function opsDoor(store: Repository, metrics: Metrics, open: () => boolean): FastifyInstance {
  const { registry } = metrics;
  const answers = () =>
    store.check().then(
      () => true,
      () => false,
    );
  return buildOps({
    ready: async () => open() && (await answers()),
    metrics: () => registry.metrics(),
    metricsType: registry.contentType,
  });
}

/** Closes kept-alive connections as they fall idle, which would otherwise hold a close until their time-out. */
function idleCloser({ server }: FastifyInstance): () => void {
  const sockets = new Set<Socket>();
  server.on('connection', (socket) => {
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
  });
  return () => {
    server.closeIdleConnections();
    // Node counts a connection on which nothing was sent yet, such as a browser's spare one, as busy.
    for (const socket of sockets) if (socket.bytesRead === 0) socket.destroy();
  };
}

/** Serves until told to stop: by a signal, or as one of several processes by the one that started them. */
export async function serve(config: Config, log: Log): Promise<void> {
  const { logger } = log;
  const metrics = createMetrics(release, log.lostLines);
  const store = await openStore(config, logger, metrics.commit);
  let stopping = false;
  const app = await build({ config, log, store, metrics, draining: () => stopping });
  const closeIdle = idleCloser(app);
  const ops = cluster.isWorker ? undefined : opsDoor(store, metrics, () => app.server.listening && !stopping);
  if (cluster.isWorker) shareMetrics(metrics);

  /** Finishes what was accepted, then closes the store. A second call, or the deadline, ends at once. */
  async function stop(reason: string): Promise<void> {
    if (stopping) process.exit(1);
    stopping = true;
    logger.info({ reason }, 'stopping');
    setTimeout(() => process.exit(1), config.LAME_DUCK_MS + stopDeadlineMs).unref();
    await sleep(config.LAME_DUCK_MS);
    const sweep = setInterval(closeIdle, 100);
    await app.close();
    clearInterval(sweep);
    await ops?.close();
    await store.close();
    logger.info('stopped');
    await log.end();
    process.exit(0);
  }

  // The supervisor sends its word as a text; what asks for the metrics is an object.
  if (cluster.isWorker) process.on('message', (word) => typeof word === 'string' && stop(word));
  // A terminal sends its signals to all processes at once: those of several wait for their supervisor's word.
  onEndSignal(cluster.isWorker ? () => undefined : stop);

  const warning = sunsetWarning(now());
  if (warning) logger.warn(warning);
  let url = '';
  try {
    if (ops) await openOps(ops, config, logger);
    url = await listen(app, { host: config.HOST, port: config.PORT, prefix: '' });
    logger.info(`Server listening at ${url}`);
  } catch (error) {
    // Told to stop before it listened: it does not, and its end is under way.
    if (stopping) return;
    await store.close();
    refuseToStart((error as Error).message);
  }
  await giveFirstKey(store, url, logger, config.DEPLOYMENT === 'production').catch((error) => {
    if (!stopping) throw error;
  });
}
