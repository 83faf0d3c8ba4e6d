/** Two sizes of the same tests: the quick one is the default, `npm run test:slow` runs the long one. */
const slow = process.env.TEST_TIER === 'slow';

/** The value for the size that runs. */
export function tier<Value>(quick: Value, long: Value): Value {
  return slow ? long : quick;
}

/** Prints measured figures that no test bounds; numbers with one decimal at most. */
export function figure(text: string, values: Record<string, number | string>) {
  const short = (value: number | string) => (typeof value === 'number' ? Math.round(value * 10) / 10 : value);
  const listed = Object.entries(values).map(([name, value]) => `${name} ${short(value)}`);
  process.stdout.write(`figure: ${text}: ${listed.join(', ')}\n`);
}
