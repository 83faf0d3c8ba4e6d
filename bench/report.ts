/** Reports the rounds of a run as a table. */
import type { Round } from './works.ts';

export interface Finding {
  name: string;
  title: string;
  /** The rounds by server, in the order of the servers. */
  rounds: Record<string, Round[]>;
}

export function median(values: number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const at = (index: number) => sorted[index] as number;
  return (at((values.length - 1) >> 1) + at(values.length >> 1)) / 2;
}

function interval(values: number[], digits: number): string {
  const [middle, least, most] = [median(values), Math.min(...values), Math.max(...values)].map((value) =>
    value.toFixed(digits),
  );
  return `${middle} (${least}–${most})`;
}

/** Compares each round with the one of `base` that was measured shortly before, so that changes of the machine's speed do not count. */
const ratios = (rounds: Round[], base: Round[], of: 'time' | 'rate') =>
  interval(
    rounds.map((round, index) => round[of] / (base[index] as Round)[of]),
    2,
  );

/** Medians, with the least and the greatest round. Times are compared with those of the first server, rates with those of plain Fastify. */
export function table(findings: Finding[]): string {
  const names = Object.keys(findings[0]?.rounds ?? {});
  const [first = '', second = ''] = names;
  const yardstick = names.length > 2 ? second : first;
  const head = ['work', 'server', 'µs a request', `of ${first}`, 'requests/s', `of ${yardstick}`, 'failures'];
  const rows = findings.flatMap(({ title, rounds }) =>
    Object.entries(rounds).map(([name, own]) => [
      name === first ? title : '',
      name,
      interval(
        own.map(({ time }) => time),
        1,
      ),
      ratios(own, rounds[first] as Round[], 'time'),
      interval(
        own.map(({ rate }) => rate),
        0,
      ),
      ratios(own, rounds[yardstick] as Round[], 'rate'),
      String(own.reduce((sum, { failures }) => sum + failures, 0)),
    ]),
  );
  const widths = head.map((_, column) => Math.max(...[head, ...rows].map((cells) => cells[column]?.length ?? 0)));
  const line = (cells: string[]) => cells.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join('  ');
  return [head, ...rows].map(line).join('\n');
}
