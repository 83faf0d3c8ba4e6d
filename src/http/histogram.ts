/**
 * An optimisation of prom-client's Histogram: series that are found by their labels once and count in arrays. The package builds a text of all labels for
 * each value, 3 µs of a read of 30.
 */
import { Histogram, type HistogramConfiguration } from 'prom-client';

type Labels = Record<string, string | number>;

export interface Series {
  labels: Labels;
  /** Counts one value. */
  observe: (value: number) => void;
}

export class FastHistogram extends Histogram {
  readonly #options: HistogramConfiguration<string>;
  readonly #series: { labels: Labels; counts: number[]; sum: number }[] = [];

  constructor(options: HistogramConfiguration<string>) {
    super(options);
    this.#options = options;
  }

  /** Adds a series. It must not exist already. */
  add(labels: Labels): Series {
    const { buckets = [] } = this.#options;
    // For each bucket, the values above the previous bound and up to its own; the last: those above all bounds.
    const series = { labels, counts: [...buckets, 0].fill(0), sum: 0 };
    this.#series.push(series);
    const observe = (value: number) => {
      let at = 0;
      while (at < buckets.length && value > (buckets[at] as number)) at += 1;
      (series.counts[at] as number) += 1;
      series.sum += value;
    };
    return { labels, observe };
  }

  /** What the registry prints; get() has the same. */
  async getForPromString() {
    const { name, help, buckets = [] } = this.#options;
    const sharedLabels = {};
    const values = this.#series.flatMap(({ labels, counts, sum }) => {
      let value = 0;
      const upTo = counts.map((count, at) => {
        value += count;
        return { metricName: `${name}_bucket`, labels: { le: buckets[at] ?? '+Inf', ...labels }, sharedLabels, value };
      });
      const all = [
        { metricName: `${name}_sum`, labels, sharedLabels, value: sum },
        { metricName: `${name}_count`, labels, sharedLabels, value },
      ];
      return [...upTo, ...all];
    });
    return { name, help, type: 'histogram', values, aggregator: 'sum' };
  }
}
