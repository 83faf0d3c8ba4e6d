/** Order statistics of measurements. */

/** The smallest of the values that so many percent of them do not exceed. Throws where there are none. */
export function percentile(values: readonly number[], percent: number): number {
  const sorted = values.toSorted((one, other) => one - other);
  const found = sorted[Math.max(0, Math.ceil((percent / 100) * sorted.length) - 1)];
  if (found === undefined) throw new Error('nothing was measured');
  return found;
}
