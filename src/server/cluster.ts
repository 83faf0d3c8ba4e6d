/** One port from several processes: starts them, replaces one that ends, and stops them together. */
import cluster, { type Worker } from 'node:cluster';
import type { Logger } from 'pino';
import { AggregatorRegistry } from 'prom-client';
import type { Config } from '../config.ts';
import type { Metrics } from '../http/metrics.ts';
import { buildOpsServer } from '../http/routes/ops.ts';
import { refuseToStart } from './environment.ts';
import { listenOps } from './listen.ts';
import { onEndSignal } from './start.ts';

/** Between the end of a worker and its successor's start, so that a fault that comes back at once does not keep the machine busy. */
const restartDelayMs = 500;

/** Above the workers' own. */
const stopDeadlineMs = 13_000;

/** Starts `count` workers, each of which serves. Ends the process when they have been stopped, or none could start. */
export async function supervise(count: number, config: Config, logger: Logger): Promise<void> {
  const alive = new Set<Worker>();
  let listening = false;
  let stopping = false;
  let exitCode = 0;

  function ended(worker: Worker, code: number | null, signal: string | null): void {
    alive.delete(worker);
    // A worker that a signal ended has no code.
    const failure = code ?? 1;
    // The first worker meets every obstacle to a start, and has told the operator.
    if (!listening) process.exit(failure);
    if (stopping) {
      exitCode ||= failure;
      if (alive.size === 0) process.exit(exitCode);
    } else {
      logger.error({ worker: worker.process.pid, code, signal }, 'a worker ended; another takes its place');
      setTimeout(start, restartDelayMs);
    }
  }

  function start(): void {
    if (stopping) return;
    const worker = cluster.fork();
    alive.add(worker);
    worker.once('exit', (code, signal) => ended(worker, code, signal));
    worker.once('listening', () => {
      if (!listening) for (let others = count - 1; others > 0; others--) setImmediate(start);
      listening = true;
    });
  }

  /** A second signal ends at once. */
  function stop(signal: NodeJS.Signals): void {
    if (stopping || alive.size === 0) {
      for (const worker of alive) worker.process.kill('SIGKILL');
      process.exit(stopping ? 1 : 0);
    }
    stopping = true;
    for (const worker of alive) worker.send(signal);
    /* c8 ignore next -- a worker that hangs beyond its own deadline */
    setTimeout(() => stop(signal), config.LAME_DUCK_MS + stopDeadlineMs).unref();
  }

  onEndSignal(stop);
  const ops = buildOpsServer({ ready: () => listening && !stopping && alive.size > 0, ...gatherMetrics() });
  await listenOps(ops, config, logger).catch(({ message }: Error) => refuseToStart(message));
  start();
}

/** Lets the process that started this one gather its metrics. */
export function shareMetrics({ registry }: Metrics): void {
  AggregatorRegistry.setRegistries([registry]);
  new AggregatorRegistry();
}

/** The metrics of all processes that this one started, as one: sums, or the largest where that is what counts. */
function gatherMetrics(): { metrics: () => Promise<string>; metricsType: string } {
  const all = new AggregatorRegistry();
  return { metrics: () => all.clusterMetrics(), metricsType: all.contentType };
}
