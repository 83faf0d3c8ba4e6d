/** Two sizes of the same tests: the quick one is the default, `npm run test:slow` runs the long one. Both print figures. */
const slow = process.env.TEST_TIER === 'slow';

/** The value for the size that runs. */
export function tier<Value>(quick: Value, long: Value): Value {
  return slow ? long : quick;
}

/** Prints a measured figure, for docs/reliability.md. */
export function figure(text: string): void {
  process.stdout.write(`figure: ${text}\n`);
}

/** Timeout of a test that a busy machine can delay. It only ends a test that hangs: no test measures a time with it. */
export const patientMs = tier(600_000, 3_600_000);
