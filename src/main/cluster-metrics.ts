/** The metrics of several processes on one port, as one. */
import { AggregatorRegistry } from 'prom-client';
import type { Metrics } from '../http/metrics.ts';

/** Lets the process that started this one gather its metrics. */
export function shareMetrics({ registry }: Metrics): void {
  AggregatorRegistry.setRegistries([registry]);
  new AggregatorRegistry();
}

/** The metrics of all processes that this one started, as one: sums, or the largest where that is what counts. */
export function gatherMetrics(): { metrics: () => Promise<string>; metricsType: string } {
  const all = new AggregatorRegistry();
  return { metrics: () => all.clusterMetrics(), metricsType: all.contentType };
}
