/** Exits with one sentence if this Node is too old for the project. It loads before any TypeScript, which such a Node cannot read. */
const { engines } = require('../package.json');

const needed = Number.parseInt(engines.node.replace('>=', ''), 10);
if (Number.parseInt(process.versions.node, 10) < needed) {
  process.stderr.write(
    `animal-store: Node ${needed} or later is needed, and this is ${process.version}. Install it; or run npm ci, which brings one on most platforms, and start with npm start or npx animal-store, which find it.\n`,
  );
  process.exit(1);
}
