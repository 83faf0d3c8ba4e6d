/** Exits with one sentence if this Node is too old for the project, or if its packages are missing. It loads before any TypeScript, which an old Node cannot read. */
const { existsSync } = require('node:fs');
const path = require('node:path');
const { dependencies, engines } = require('../package.json');

const root = path.join(__dirname, '..');
const needed = Number.parseInt(engines.node.replace('>=', ''), 10);

function refuse(sentence) {
  process.stderr.write(`animal-store: ${sentence}\n`);
  process.exit(1);
}

if (Number.parseInt(process.versions.node, 10) < needed)
  refuse(
    `Node ${needed} or later is needed, and this is ${process.version}. Install it; or run npm ci, and with npm 9 then npm rebuild, which bring one on most platforms, and start with npm start or npx animal-store, which find it.`,
  );
const missing = Object.keys(dependencies).find((name) => !existsSync(path.join(root, 'node_modules', name)));
if (missing) refuse(`The package ${missing} is not installed: run npm ci.`);
