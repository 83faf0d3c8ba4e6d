/** Measures whether the processor time of a parser is in proportion to the length of its input. */

/** No request may keep the event loop for longer. */
const maxRequestMs = 25;

/** Twice the input takes twice the time, and on a busy machine up to this much. A quadratic parser takes four times as long. */
const maxRatio = 3;
const slackMs = 0.3;

/** In the first rounds the code is not yet compiled. More rounds are needed on a busy machine, where the least time counts. */
const minRounds = 10;
const maxRounds = 80;
/** After this much processor time, a slow parser is measured well enough. */
const enoughMs = 3000;

/** Processor time of this thread, in milliseconds. Linux brings it up to date when it is asked for that of the process. */
function threadTime(): number {
  process.cpuUsage();
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
}

/**
 * What is wrong with the processor time of `read` for an input of the length `limit`, compared with one of half the length; undefined if nothing
 * is. The time for an empty input is left out of the comparison: it is that of the rest of a request. `maxMs`: the most that one input may take.
 */
export async function faultOf(
  read: (text: string) => unknown,
  make: (length: number) => string,
  limit: number,
  maxMs = maxRequestMs,
): Promise<string | undefined> {
  const texts = [0, limit / 2, limit].map(make);
  const leastMs = texts.map(() => Number.POSITIVE_INFINITY);
  const start = threadTime();
  let fault: string | undefined;
  for (let round = 1; round <= maxRounds && threadTime() - start < enoughMs; round++) {
    for (const [index, text] of texts.entries()) {
      const begun = threadTime();
      await read(text);
      leastMs[index] = Math.min(leastMs[index] as number, threadTime() - begun);
    }
    const [empty, half, whole] = leastMs as [number, number, number];
    const isFast = whole <= maxMs && whole - empty <= maxRatio * (half - empty) + slackMs;
    if (isFast && round >= minRounds) return undefined;
    const [least, middle, most] = leastMs.map((ms) => ms.toFixed(2));
    fault = isFast ? undefined : `takes ${most} ms, half the input ${middle} ms, an empty one ${least} ms`;
  }
  return fault;
}
