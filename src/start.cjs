/** Starts the server, with options for V8. If the system has execve, the server replaces this process, so that signals reach it. */
const { spawnSync } = require('node:child_process');
const path = require('node:path');
require('./preflight.cjs');

exports.options = [
  // Each saves up to 25 MB.
  '--max-semi-space-size=16',
  '--heap-growing-percent=20',
  // Otherwise SIGUSR1, which programs that rotate logs send, opens a debugger.
  '--disable-sigusr1',
];

if (require.main === module) {
  const args = [...process.execArgv, ...exports.options, path.join(__dirname, 'main.ts')];
  const cache = path.join(__dirname, '../node_modules/.cache/animal-store');
  const env = { ...process.env, NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE || cache };
  // Windows has no execve.
  if (process.platform === 'win32')
    process.exitCode = spawnSync(process.execPath, args, { env, stdio: 'inherit' }).status ?? 1;
  else process.execve(process.execPath, [process.execPath, ...args], env);
}
