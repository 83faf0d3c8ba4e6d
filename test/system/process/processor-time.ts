/** Measures whether the processor time of a parser is in proportion to the length of its input. */

/** No request may keep the event loop for longer. */
const maxRequestMs = 25;

/** Twice the input takes twice the time, and on a busy machine up to this much. A quadratic parser takes four times as long. */
const maxRatio = 3;
const slackMs = 0.3;

/** In the first rounds the code is not yet compiled. More rounds are needed on a busy machine. */
const minRounds = 10;
const maxRounds = 80;
/** After this much processor time, a slow parser is measured well enough. */
const enoughMs = 3000;

/** Processor time of this thread, in milliseconds. Linux brings it up to date when it is asked for that of the process. */
function threadTime() {
  process.cpuUsage();
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
}

const middleOf = (values: number[]) => values.toSorted((a, b) => a - b)[values.length >> 1] as number;

/**
 * What is wrong with the processor time of `read` for an input of the length `limit`, compared with one of half the length; undefined if nothing
 * is. The time for an empty input is left out of the comparison: it is that of the rest of a request.
 * A busy neighbour makes a core half as fast for some milliseconds. So the times of one round are compared, and the middle round decides.
 */
export async function faultOf(read: (text: string) => unknown, make: (length: number) => string, limit: number) {
  const texts = [0, limit / 2, limit].map(make);
  const rounds: [empty: number, half: number, whole: number][] = [];
  const start = threadTime();
  let fault: string | undefined;
  while (rounds.length < maxRounds && threadTime() - start < enoughMs) {
    const times: number[] = [];
    for (const text of texts) {
      const begun = threadTime();
      await read(text);
      times.push(threadTime() - begun);
    }
    rounds.push(times as (typeof rounds)[number]);
    // Of a request that is refused early, half the input may take less than none.
    const excess = middleOf(
      rounds.map(([empty, half, whole]) => {
        const rest = Math.min(empty, half);
        return whole - rest - maxRatio * (half - rest);
      }),
    );
    const isFast = Math.min(...rounds.map(([, , whole]) => whole)) <= maxRequestMs && excess <= slackMs;
    if (isFast && rounds.length >= minRounds) return undefined;
    const [empty, half, whole] = [0, 1, 2].map((at) => middleOf(rounds.map((times) => times[at] as number)).toFixed(2));
    fault = isFast ? undefined : `takes ${whole} ms, half the input ${half} ms, an empty one ${empty} ms`;
  }
  return fault;
}
