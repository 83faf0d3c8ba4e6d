/** Records the metrics of a real server, and lets promtool say which alerts they raise and when. */
import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { temporaryFolder } from './app.ts';

export interface Recorder {
  /** One scrape, of a server that may be dead: `up` is then 0, as Prometheus would set it. */
  scrape: () => Promise<void>;
  /** One scrape of a job without any target. */
  scrapeNothing: () => void;
  /** The number of scrapes so far. */
  count: () => number;
  /** The alerts that fire at each scrape. */
  firing: () => Firing[];
}

/** The names of the alerts that fire at one scrape. */
type Firing = string[];

/** A scrape stands for a minute, so that an outage of hours can be recorded in seconds. */
const interval = '1m';

const sample = /^([a-z_0-9]+(?:\{[^}]*\})?) (\S+)$/;

const withLabels = (series: string) => {
  const [, name, labels = ''] = /^([^{]+)(?:\{(.*)\})?$/.exec(series) ?? [];
  return `${name}{${[labels, 'job="animal-store"', 'instance="a"'].filter(Boolean).join(',')}}`;
};

/** Records the series of `metrics`, a list of names, from /metrics of the ops port. `rules`: the file of the rules. */
export function createRecorder(opsUrl: string, metrics: readonly string[], rules: string): Recorder {
  const wanted = new RegExp(`^(${metrics.join('|')})(\\{|$)`);
  const series = new Map<string, string[]>();
  let scrapes = 0;

  function add(values: Map<string, string>): void {
    for (const name of values.keys()) if (!series.has(name)) series.set(name, Array(scrapes).fill('_'));
    for (const [name, all] of series) {
      // Prometheus marks a series as stale when its target no longer has it.
      all.push(values.get(name) ?? (/^(_|stale)$/.test(all.at(-1) ?? '_') ? '_' : 'stale'));
    }
    scrapes += 1;
  }

  async function read(): Promise<Map<string, string>> {
    const text = await (await fetch(`${opsUrl}/metrics`)).text();
    const values = new Map([['up', '1']]);
    for (const line of text.split('\n')) {
      const [, name = '', value = ''] = sample.exec(line) ?? [];
      if (wanted.test(name)) values.set(name, value);
    }
    return values;
  }

  return {
    scrape: async () => add(await read().catch(() => new Map([['up', '0']]))),
    scrapeNothing: () => add(new Map()),
    count: () => scrapes,
    firing() {
      const times = Array.from({ length: scrapes }, (_, at) => at);
      const expr = 'group by (alertname) (ALERTS{alertstate="firing"})';
      const input = [...series].map(([name, values]) => ({ series: withLabels(name), values: values.join(' ') }));
      const test = {
        interval,
        input_series: input,
        // No time has this sample, so promtool prints for each what it has found.
        promql_expr_test: times.map((at) => ({
          expr,
          eval_time: `${at}m`,
          exp_samples: [{ labels: '{}', value: -1 }],
        })),
      };
      const file = path.join(temporaryFolder(), 'recorded.test.yml');
      // JSON is YAML.
      writeFileSync(file, JSON.stringify({ rule_files: [rules], evaluation_interval: interval, tests: [test] }));
      const { stdout, stderr } = spawnSync('promtool', ['test', 'rules', file], {
        encoding: 'utf8',
        maxBuffer: 2 ** 26,
      });
      const found = [...(stdout + stderr).matchAll(/time: (\S+),\s+exp:.*\n\s+got:(.*)/g)];
      if (found.length !== scrapes) throw new Error(`promtool: ${stdout}${stderr}`.slice(0, 4000));
      return found.map(([, , got = '']) => [...got.matchAll(/alertname="(\w+)"/g)].map(([, name = '']) => name));
    },
  };
}

/** Alert → the first and last scrape from `from` on at which it fires. */
export function spans(firing: readonly Firing[], from = 0): Record<string, [first: number, last: number]> {
  const found: Record<string, [number, number]> = {};
  firing.forEach((names, at) => {
    if (at < from) return;
    for (const name of names) found[name] = [found[name]?.[0] ?? at, at];
  });
  return found;
}
