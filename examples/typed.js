/** Starts typed.ts, which an older Node cannot read. */
if (Number.parseInt(process.versions.node, 10) < 24) {
  const usage = 'Usage: KEY=YOUR_API_KEY npx node examples/typed.js';
  console.error(`This example needs Node 24 or later, and this is ${process.version}.\n${usage}`);
  process.exit(2);
}
await import('./typed.ts');
