/** Runs a real HAProxy with deploy/patroni/haproxy.cfg, after replacing its addresses. */
import { existsSync, writeFileSync } from 'node:fs';
import { temporaryFolder } from './app.ts';
import { launch, type Process } from './process.ts';
import { read } from './project.ts';

const program = '/usr/sbin/haproxy';

/** Why HAProxy cannot run here; undefined if it can. */
export const missingHaproxy = existsSync(program) ? undefined : `${program} is not installed`;

interface HaproxyOptions {
  /** Where it listens. */
  bind: string;
  /** The addresses of PostgreSQL of the nodes, and the port of their managers, if that is another. */
  nodes: { database: string; manager?: number }[];
  /** A program and its arguments that the command line is appended to. */
  under?: string[];
}

/** The configuration as deployed, with these addresses. */
function configurationOf({ bind, nodes }: HaproxyOptions) {
  let next = 0;
  const given = read('deploy/patroni/haproxy.cfg')
    .replace('bind :5432', `bind ${bind}`)
    .replace(/^( *server \w+) [\d.:]+$/gm, (_line, server: string) => {
      const { database, manager } = nodes[next++] as HaproxyOptions['nodes'][number];
      return `${server} ${database}${manager === undefined ? '' : ` port ${manager}`}`;
    });
  // Only root may become another user.
  const userless = process.getuid?.() === 0 ? given : given.replace(/^ *(user|group) haproxy\n/gm, '');
  if (!given.includes(bind) || next !== nodes.length)
    throw new Error('deploy/patroni/haproxy.cfg has other lines than this test replaces');
  return userless;
}

export function startHaproxy(options: HaproxyOptions) {
  const file = `${temporaryFolder()}/haproxy.cfg`;
  writeFileSync(file, configurationOf(options));
  const [command = '', ...args] = [...(options.under ?? []), program, '-W', '-f', file];
  const processes: Process[] = [];
  // With all its processes: a worker lives on for a moment without its master.
  const start = () => void processes.push(launch(command, args, { group: true }));
  const current = () => processes.at(-1) as Process;
  start();
  return {
    signal: (signal: NodeJS.Signals) => void process.kill(-current().pid, signal),
    /** Takes the configuration again, in a new process. */
    reload: () => void process.kill(current().pid, 'SIGUSR2'),
    /** Starts it again after SIGKILL. */
    start,
  };
}
