/** What becomes of the signals that ask the process to end: it ends at once, until what serves takes them over. */
let end: (signal: NodeJS.Signals) => void = () => process.exit(0);

// From the first moment on: in a container this is process 1, which the kernel spares every signal that it has no handler for.
for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.on(signal, () => end(signal));

export function onEndSignal(take: (signal: NodeJS.Signals) => void): void {
  end = take;
}
