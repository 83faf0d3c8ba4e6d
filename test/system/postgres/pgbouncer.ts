/** Runs a real PgBouncer in front of a PostgreSQL server: each transaction may use a different connection to the server. */
import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { findPort } from '../../support/known-port.ts';
import { launch } from '../../support/process.ts';
import { temporaryFolder } from '../../support/store.ts';

const { error, stdout } = spawnSync('pgbouncer', ['--version'], { encoding: 'utf8' });

/** Why PgBouncer is not available; undefined if it is. */
export const missingPgbouncer = error && 'pgbouncer is not installed';

/** Turns off prepared statements. Releases before 1.21 support none and reject the setting. */
const keepNothing = /^PgBouncer 1\.(1\d|20)\./.test(stdout) ? '' : 'max_prepared_statements = 0';

/** Starts PgBouncer, in transaction mode without prepared statements, for the server of `databaseUrl`. Returns the URL through it. */
export async function startPgbouncer(databaseUrl: string, connections: number) {
  const { hostname, port, username } = new URL(databaseUrl);
  const own = await findPort();
  const file = `${temporaryFolder()}/pgbouncer.ini`;
  const settings = [
    '[databases]',
    `* = host=${hostname} port=${port} user=${username}`,
    '[pgbouncer]',
    'listen_addr = 127.0.0.1',
    `listen_port = ${own}`,
    'unix_socket_dir =',
    'auth_type = any',
    'pool_mode = transaction',
    `default_pool_size = ${connections}`,
    keepNothing,
    // It refuses to run as root.
    ...(process.getuid?.() === 0 ? ['user = nobody'] : []),
  ];
  writeFileSync(file, `${settings.join('\n')}\n`);
  await launch('pgbouncer', [file], {}).seen('stderr', /process up/);
  return databaseUrl.replace(`:${port}/`, `:${own}/`);
}
