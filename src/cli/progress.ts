/** How far a long command has come, on a terminal only: a log needs no bar. */

export interface Progress {
  /** Whether anybody looks at it. */
  visible: boolean;
  /** `count`: what was worked on so far, for the rate, where that is not what `done` and `total` measure. */
  show(done: number, total: number, count?: number): void;
}

const cells = 30;
const redrawMs = 100;
const clearToEnd = '\x1b[K';

/** Shows how far `work` has come, in `unit`, until it ends. */
export async function withProgress<Result>(
  what: string,
  unit: string,
  work: (progress: Progress) => Promise<Result>,
): Promise<Result> {
  if (!process.stderr.isTTY) return work({ visible: false, show: () => undefined });
  try {
    return await work({ visible: true, show: bar(what, unit) });
  } finally {
    process.stderr.write(`\r${clearToEnd}`);
  }
}

function bar(what: string, unit: string): Progress['show'] {
  const start = performance.now();
  let drawn = Number.NEGATIVE_INFINITY;
  return (done, total, count = done) => {
    const now = performance.now();
    if (now - drawn < redrawMs) return;
    drawn = now;
    const share = total > 0 ? Math.min(done / total, 1) : 1;
    const blocks = '█'.repeat(Math.round(share * cells)).padEnd(cells, '░');
    const rate = Math.round((count * 1000) / Math.max(now - start, 1));
    process.stderr.write(`\r${what} ${blocks} ${Math.floor(share * 100)} %, ${count} ${unit}, ${rate}/s${clearToEnd}`);
  };
}
