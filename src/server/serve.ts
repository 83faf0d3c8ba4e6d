/** The life of the server: settings, store, app, listen; then, at a signal, drain, close and exit. */
import { closeSync, openSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { devNull } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import { buildApp } from '../app.ts';
import { type Config, type ConfigError, signUpOf } from '../config.ts';
import { sunsetWarning } from '../core/deprecation.ts';
import { messageOf } from '../core/errors.ts';
import { createMetrics } from '../http/metrics.ts';
import { buildOpsServer } from '../ops/routes.ts';
import { describeStore, openStore } from '../store/open.ts';
import type { OpenError, Store, StoreMetrics } from '../store/store.ts';
import { findUnknownNames, readEnvironment, refuseToStart } from './environment.ts';
import { giveFirstKey } from './first-key.ts';
import { closeConnections, hostsOf, openPorts, untilQuiet } from './listen.ts';
import { openLog } from './log.ts';
import { addMemory } from './memory.ts';
import { createReadiness } from './readiness.ts';
import { readRelease } from './release.ts';
import { onEndSignal } from './start.ts';

const fatalDelayMs = 500;

/** Longer than the time-out of a request: one that never completes gets its 408, and the exit code is still 0. */
const stopDeadlineMs = 13_000;

const now = () => new Date();

function loadConfig(): Config {
  try {
    return readEnvironment(process.env);
  } catch (error) {
    return refuseToStart((error as ConfigError).message);
  }
}

/** The life of a process that has a store. A signal begins `leaving`. In `leaving` and `closing`, each response closes its connection. */
type Stage = 'serving' | 'leaving' | 'settling' | 'closing';

/** Serves until a signal. */
export async function run(): Promise<void> {
  const config = loadConfig();
  const log = await openLog(config);
  const { logger } = log;
  warn(config, logger);
  const release = readRelease();
  const metrics = createMetrics(release.version, release.revision);
  const readiness = createReadiness(logger);
  addMemory(metrics);
  metrics.add('animal_store_log_lines_lost_total', 'Log lines that could not be written.', log.lostLines);
  metrics.add('animal_store_ready', 'Whether the server could serve when it last looked: 1 or 0.', () =>
    Number(readiness.isReady()),
  );
  const store = await openConfigured(config, logger, readiness.follow(metrics));
  /** Rejects if no file descriptor is left, so that connections are closed as soon as they open, or if the store does not answer. */
  async function check(): Promise<void> {
    closeSync(openSync(devNull, 'r'));
    await store.check();
  }
  const endWatch = readiness.watch(check);
  let stage: Stage = 'serving';
  const isStopping = () => stage !== 'serving';
  const app = await buildApp({
    ...appOptionsOf(config),
    store,
    logger,
    logRequest: log.logRequest,
    metrics,
    now,
    servesHost: await hostsOf(config.HOST, config),
    draining: () => stage === 'leaving' || stage === 'closing',
  });
  const ops = buildOpsServer({
    release,
    obstacle() {
      if (isStopping()) return 'the server stops';
      return app.server.listening ? readiness.ask(check) : 'the server does not listen yet';
    },
    servesHost: await hostsOf(config.OPS_HOST, config),
    metrics: metrics.text,
    logger,
  });

  let opened: Awaited<ReturnType<typeof openPorts>> | undefined;

  /** Finishes the requests in progress and closes the store. Exits with 0, or with 1 at the deadline. Further calls do nothing. */
  async function stop(reason: string): Promise<void> {
    if (isStopping()) return;
    stage = 'leaving';
    logger.info({ reason }, 'stopping');
    giveUpAfter(config.LAME_DUCK_MS + stopDeadlineMs, logger);
    await sleep(config.LAME_DUCK_MS);
    // A proxy keeps the connections that it opens now, and so opens no more.
    stage = 'settling';
    await untilQuiet(app);
    stage = 'closing';
    await closeConnections(app, opened?.sockets ?? [app.server]);
    await app.close();
    await ops.close();
    endWatch();
    await store.close();
    logger.info('stopped');
    await log.end();
    process.exit(0);
  }
  onEndSignal(stop);

  // Without the password of the store.
  logger.info({ ...release, settings: { ...config, DATABASE_URL: describeStore(config.DATABASE_URL) } }, 'starting');
  try {
    opened = await openPorts(app, ops, config);
  } catch (error) {
    // After a signal, stop() is already running, and exits.
    if (isStopping()) return;
    await store.close();
    return refuseToStart((error as Error).message);
  }
  const { url } = opened;
  await giveFirstKey(config, logger, store, metrics, url).catch((error) => {
    if (isStopping()) return;
    logger.warn({ reason: messageOf(error.cause ?? error) }, 'no first API key was looked for or made');
  });
  if (!log.isTerminal) return;
  logger.flush();
  const makeKey = signUpOf(config) === 'none' ? 'npx animal-store key create' : `${url}/account`;
  process.stderr.write(`\n  Reference   ${url}/docs\n  API         ${url}/v1\n  Make a key  ${makeKey}\n\n`);
}

/** Opens the store. If it can no longer be written to, waiting writes get 503 and the process exits with 1, so that it is restarted. */
async function openConfigured(config: Config, logger: Logger, metrics: StoreMetrics): Promise<Store> {
  const onFatal = (error: Error) => {
    logger.fatal({ err: error }, 'the store can no longer be written to');
    setTimeout(() => process.exit(1), fatalDelayMs);
  };
  const strict = config.DEPLOYMENT === 'production';
  try {
    const options = { now, logger, metrics, onFatal, strict, migrate: !strict };
    const store = await openStore(config.DATABASE_URL, options);
    if (store.migrated.length > 0) logger.info(`migrations applied: ${store.migrated.join(', ')}`);
    return store;
  } catch (error) {
    return refuseToStart(`DATABASE_URL: ${(error as OpenError).message}`);
  }
}

/** Warns of settings that an operator may not want. */
function warn(config: Config, logger: Logger): void {
  for (const sentence of findUnknownNames()) logger.warn(sentence);
  const warning = config.SUNSET_ENFORCE === 'true' ? sunsetWarning(now()) : undefined;
  if (warning) logger.warn(warning);
  if (config.DEPLOYMENT === 'production' && config.BASE_URL === undefined)
    logger.warn('BASE_URL is not set: documents and one-time links do not name the public address');
}

function giveUpAfter(deadlineMs: number, logger: Logger): void {
  const giveUp = () => {
    logger.fatal(`the stop did not end within ${deadlineMs / 1000} s`);
    process.exit(1);
  };
  setTimeout(giveUp, deadlineMs).unref();
}

function appOptionsOf(config: Config) {
  return {
    live: config.DEPLOYMENT === 'production',
    baseUrl: config.BASE_URL,
    signUp: signUpOf(config),
    quickstartBasePath: config.QUICKSTART_BASE_PATH === 'off' ? undefined : config.QUICKSTART_BASE_PATH,
    enforceSunset: config.SUNSET_ENFORCE === 'true',
    maxConnections: config.MAX_CONNECTIONS,
    requestsPerMinute: config.RATE_LIMIT,
    trustProxy: config.TRUST_PROXY?.split(','),
    corsOrigins: config.CORS_ORIGINS?.split(','),
    readFile: (name: string) => readFile(new URL(`../../${name}`, import.meta.url)),
  };
}
