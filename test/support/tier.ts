/** Two sizes of the same tests: `npm test` runs the quick one, `npm run test:slow` the long one. Both print what they found. */
const slow = process.env.TEST_TIER === 'slow';

/** The count, time or bound for the tier that runs. */
export function tier<Value>(quick: Value, long: Value): Value {
  return slow ? long : quick;
}

/** Prints a figure of docs/reliability.md, as this run found it. */
export function figure(text: string): void {
  process.stdout.write(`figure: ${text}\n`);
}

/** The time-out of a test that a busy machine may hold up. */
export const patientMs = tier(120_000, 3_600_000);
