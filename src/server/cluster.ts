/** Serves one port with several worker processes: starts them, replaces a worker that exits, and stops them together. */
import cluster, { type Worker } from 'node:cluster';
import { setTimeout as sleep } from 'node:timers/promises';
import { AggregatorRegistry } from 'prom-client';
import type { Config } from '../config.ts';
import type { Metrics } from '../http/metrics.ts';
import { buildOpsServer } from '../ops/routes.ts';
import { refuseToStart } from './environment.ts';
import { hostsOf, listenOps } from './listen.ts';
import type { Log } from './log.ts';
import { release } from './release.ts';
import { isEndSignal, onEndSignal } from './start.ts';

/** Pause before a worker is replaced, so that a worker that crashes on every start does not keep the machine busy. */
const restartDelayMs = 500;

/** Longer than the workers' own deadline. */
const stopDeadlineMs = 13_000;

/** How long the log of a worker that has exited may take to be written. */
const logWithinMs = 1000;

/** Longer than a store needs to notice that its database does not respond. */
const readyWithinMs = 1500;

/**
 * The primary process sends this to a worker, which replies with a Readiness. To stop a worker, it sends the name of a signal. Both ignore all other
 * messages: prom-client sends its own, and with --watch Node posts some to the parent process.
 */
const askReady = 'ready';
interface Readiness {
  ready?: boolean;
}

/** Resolves if the worker serves requests and its store responds; rejects if not, or if it does not answer. */
async function expectReady(worker: Worker): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const onMessage = (message: Readiness | null) => {
    if (message?.ready === true) resolve();
    else if (message?.ready === false) reject();
  };
  const timer = setTimeout(reject, readyWithinMs);
  worker.on('message', onMessage);
  worker.send(askReady, (error) => error && reject(error));
  await promise.finally(() => {
    clearTimeout(timer);
    worker.off('message', onMessage);
  });
}

/** In a worker: answers and stops when the primary process asks for it. `ready`: whether this worker serves requests and its store responds. */
export function listenToPrimary(stop: (reason: string) => void, ready: () => Promise<boolean>): void {
  process.on('message', async (message) => {
    if (message === askReady)
      process.send?.({ ready: await ready() } satisfies Readiness, undefined, undefined, () => undefined);
    else if (isEndSignal(message)) stop(message);
  });
}

/** Starts `count` workers. Exits the process when all workers have stopped, or if the first one cannot start. */
export async function supervise(count: number, config: Config, log: Log): Promise<void> {
  const { logger } = log;
  const alive = new Set<Worker>();
  let listening = false;
  let stopping = false;
  let exitCode = 0;
  const forwarding = new Set<Promise<void>>();
  // The workers share one listening socket. Round robin would pass each connection on, and never close one whose worker was killed meanwhile.
  cluster.schedulingPolicy = cluster.SCHED_NONE;
  if (log.mixes) cluster.setupPrimary({ stdio: ['inherit', 'pipe', 'inherit', 'ipc'] });

  function forwardLog({ process: { stdout } }: Worker): void {
    if (!stdout) return;
    const forwarded = log
      .forward(stdout)
      .catch((error) => logger.error({ err: error }, 'the log of a worker cannot be read'))
      .finally(() => forwarding.delete(forwarded));
    forwarding.add(forwarded);
  }

  /** Exits when the lines of the workers, which have exited, are written. */
  async function exit(code: number): Promise<void> {
    await Promise.race([Promise.all(forwarding), sleep(logWithinMs)]);
    process.exit(code);
  }

  function ended(worker: Worker, code: number | null, signal: string | null): void {
    alive.delete(worker);
    // A worker killed by a signal has no exit code. One that starts does not handle these yet, and has accepted nothing.
    const failure = code ?? (isEndSignal(signal) ? 0 : 1);
    // The first worker has already reported why it cannot start.
    if (!listening) void exit(failure);
    else if (stopping) {
      exitCode ||= failure;
      if (alive.size === 0) void exit(exitCode);
    } else {
      logger.error({ worker: worker.process.pid, code, signal }, 'a worker exited; starting another');
      setTimeout(start, restartDelayMs);
    }
  }

  function start(): void {
    if (stopping) return;
    const worker = cluster.fork();
    alive.add(worker);
    forwardLog(worker);
    worker.once('exit', (code, signal) => ended(worker, code, signal));
    worker.once('listening', () => {
      if (!listening) for (let others = count - 1; others > 0; others--) setImmediate(start);
      listening = true;
    });
  }

  function stop(signal: NodeJS.Signals): void {
    if (stopping) return;
    stopping = true;
    if (alive.size === 0) void exit(0);
    // Without the callback, a worker that has just ended would emit an error event, which nobody handles.
    for (const worker of alive) worker.send(signal, () => undefined);
    setTimeout(abort, config.LAME_DUCK_MS + stopDeadlineMs).unref();
  }

  function abort(): void {
    for (const worker of alive) worker.process.kill('SIGKILL');
    process.exit(1);
  }

  let asking: Promise<boolean> | undefined;
  /** Whether one worker is enough to serve requests. Questions that overlap share an answer. */
  function ready(): Promise<boolean> {
    asking ??= Promise.any([...alive].map(expectReady))
      .then(
        () => true,
        () => false,
      )
      .finally(() => (asking = undefined));
    return asking;
  }

  onEndSignal(stop, abort);
  const servesHost = await hostsOf(config.OPS_HOST, config);
  const isReady = async () => !stopping && (await ready());
  const ops = buildOpsServer({ release, ready: isReady, ...gatherMetrics(), servesHost });
  await listenOps(ops, config, logger).catch(({ message }: Error) => refuseToStart(message));
  start();
}

/** Makes this worker's metrics available to the process that started it. */
export function shareMetrics({ registry }: Metrics): void {
  AggregatorRegistry.setRegistries([registry]);
  new AggregatorRegistry();
}

/** Combines the metrics of all workers: sums, or maxima where a metric asks for that. */
function gatherMetrics(): { metrics: () => Promise<string>; metricsType: string } {
  const all = new AggregatorRegistry();
  return { metrics: () => all.clusterMetrics(), metricsType: all.contentType };
}
