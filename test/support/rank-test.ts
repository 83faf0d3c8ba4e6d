/** Compares two samples: whether the values of one tend to be larger (Mann–Whitney U test). */

/** Abramowitz and Stegun, Handbook of Mathematical Functions, formula 7.1.26: the error is below 1.5e-7. */
function errorFunction(x: number): number {
  const t = 1 / (1 + 0.3275911 * x);
  const factors = [0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429];
  const sum = factors.reduceRight((total, factor) => t * (factor + total), 0);
  return 1 - sum * Math.exp(-x * x);
}

/**
 * The probability that samples of one distribution differ at least as much in their ranks, by the normal approximation: give at least 20
 * values each, without many equal ones.
 */
export function rankProbability(one: readonly number[], other: readonly number[]): number {
  const all = [...one.map((value) => ({ value, mine: true })), ...other.map((value) => ({ value, mine: false }))];
  all.sort((a, b) => a.value - b.value);
  const rankSum = all.reduce((sum, { mine }, at) => (mine ? sum + at + 1 : sum), 0);
  const pairs = one.length * other.length;
  const u = rankSum - (one.length * (one.length + 1)) / 2;
  const deviation = Math.sqrt((pairs * (all.length + 1)) / 12);
  return 1 - errorFunction(Math.abs(u - pairs / 2) / deviation / Math.SQRT2);
}
