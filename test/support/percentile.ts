/** Computes percentiles of measurements. */

/** The smallest value that at least `percent` % of the values do not exceed (nearest rank). Throws if there are no values. */
export function percentile(values: readonly number[], percent: number) {
  const sorted = values.toSorted((one, other) => one - other);
  const found = sorted[Math.max(0, Math.ceil((percent / 100) * sorted.length) - 1)];
  if (found === undefined) throw new Error('nothing was measured');
  return found;
}
