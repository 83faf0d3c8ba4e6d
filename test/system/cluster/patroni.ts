/** Runs three nodes of Patroni, three of etcd and HAProxy, each in a network namespace of its own, so that a test can cut any of them off. */
import { execFile, execFileSync, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import postgres from 'postgres';
import { onTestFinished } from 'vitest';
import { parse, stringify } from 'yaml';
import { missingHaproxy, startHaproxy } from '../../support/haproxy.ts';
import { dataFolder, signalTree } from '../../support/postgres.ts';
import { launch } from '../../support/process.ts';
import { read } from '../../support/project.ts';

const programs = ['/usr/bin/patroni', '/usr/bin/etcd', '/usr/lib/postgresql/15/bin/postgres', '/usr/bin/setpriv'];

/** Why the cluster cannot run here; undefined if it can. */
export const missingPatroni = ((): string | undefined => {
  const missing = programs.find((program) => !fs.existsSync(program));
  if (missing) return `${missing} is not installed`;
  if (missingHaproxy) return missingHaproxy;
  if (process.getuid?.() !== 0) return 'network namespaces need root';
  return spawnSync('ip', ['netns', 'list']).status === 0 ? undefined : 'ip netns does not work here';
})();

/** A machine of the test's network. */
interface Machine {
  address: string;
  /** A command line that runs in its network. */
  under: string[];
}

export type Cluster = Awaited<ReturnType<typeof startPatroni>>;

const password = 'secret';
const quiet = { stdio: 'ignore' as const };

/** Addresses are those of a network that nothing else uses. */
let networks = 0;

function createNetwork() {
  const id = `${process.pid.toString(36)}${networks++}`;
  const bridge = `as${id}`;
  const names: string[] = [];
  const ip = (...args: string[]) => execFileSync('ip', args, quiet);
  const prefix = `10.${77 + (process.pid % 100)}.${networks}`;
  ip('link', 'add', 'name', bridge, 'type', 'bridge');
  ip('address', 'add', `${prefix}.1/24`, 'dev', bridge);
  ip('link', 'set', bridge, 'up');

  let last = 10;
  const links = new Map<string, string>();

  function addMachine() {
    last++;
    const namespace = `${bridge}-${last}`;
    const link = `${bridge}v${last}`;
    names.push(namespace);
    ip('netns', 'add', namespace);
    ip('link', 'add', link, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', namespace);
    ip('link', 'set', link, 'master', bridge, 'up');
    const inside = (...args: string[]) => ip('netns', 'exec', namespace, 'ip', ...args);
    inside('address', 'add', `${prefix}.${last}/24`, 'dev', 'eth0');
    inside('link', 'set', 'lo', 'up');
    inside('link', 'set', 'eth0', 'up');
    const address = `${prefix}.${last}`;
    links.set(address, link);
    return { address, under: ['ip', 'netns', 'exec', namespace] };
  }

  return {
    addMachine,
    setLink: ({ address }: Machine, state: 'up' | 'down') => ip('link', 'set', links.get(address) as string, state),
    remove() {
      for (const name of names) spawnSync('ip', ['netns', 'delete', name]);
      spawnSync('ip', ['link', 'delete', bridge]);
    },
  };
}

/** deploy/patroni/node1.yml with the addresses, folders and passwords of a node of the test. */
function configurationOf(name: string, { address }: Machine, etcd: Machine[], root: string) {
  const given = parse(read('deploy/patroni/node1.yml'));
  const user = (username: string) => ({ username, password });
  const network = `${address.replace(/\.\d+$/, '.0')}/24`;
  return stringify({
    ...given,
    name,
    etcd: { hosts: etcd.map((member) => `${member.address}:2379`).join(',') },
    restapi: { listen: `${address}:8008`, connect_address: `${address}:8008` },
    postgresql: {
      ...given.postgresql,
      listen: `${address}:5432`,
      connect_address: `${address}:5432`,
      data_dir: `${root}/${name}`,
      pgpass: `${root}/${name}.pgpass`,
      pg_hba: ['local all all trust', `host all all ${network} trust`, `host replication all ${network} trust`],
      authentication: { superuser: user('postgres'), replication: user('replicator'), rewind: user('rewinder') },
      parameters: { unix_socket_directories: '', fsync: 'off', shared_buffers: '32MB' },
    },
    // No machine of the test has one.
    watchdog: { mode: 'off' },
  });
}

/** Starts the cluster; resolves when it has a primary and a synchronous standby. It is removed when the test ends. */
export async function startPatroni() {
  const network = createNetwork();
  const root = dataFolder({ inMemory: true });
  const { uid, gid } = fs.statSync(root);
  /** The process that the first line of postmaster.pid names. */
  const postmaster = (node: string) => Number.parseInt(fs.readFileSync(`${root}/${node}/postmaster.pid`, 'utf8'), 10);
  // The managers have been killed then.
  onTestFinished(() => {
    for (const file of fs.globSync('*/postmaster.pid', { cwd: root }))
      signalTree(postmaster(path.dirname(file)), 'SIGKILL');
    network.remove();
    fs.rmSync(root, { recursive: true, force: true, maxRetries: 5, retryDelay: 200 });
  });

  /** Its output is in a file: PostgreSQL would keep a pipe open. */
  function run({ under }: Machine, ...command: string[]) {
    const user = ['setpriv', `--reuid=${uid}`, `--regid=${gid}`, '--clear-groups'];
    const [file = '', ...args] = [...under, ...user, 'sh', '-c', 'exec "$@" >>log 2>&1', 'sh', ...command];
    return launch(file, args, { folder: root, env: { PATH: '/usr/bin:/bin', HOME: root, LC_ALL: 'C' } });
  }

  const etcdMachines = [1, 2, 3].map(() => network.addMachine());
  const peers = etcdMachines.map(({ address }, index) => `etcd${index + 1}=http://${address}:2380`).join(',');
  const etcd = etcdMachines.map((machine, index) => {
    const name = `etcd${index + 1}`;
    const [client, peer] = [2379, 2380].map((port) => `http://${machine.address}:${port}`);
    const options = [
      '--enable-v2=true',
      `--name=${name}`,
      `--data-dir=${root}/${name}`,
      `--initial-cluster=${peers}`,
      `--listen-client-urls=${client}`,
      `--advertise-client-urls=${client}`,
      `--listen-peer-urls=${peer}`,
      `--initial-advertise-peer-urls=${peer}`,
    ];
    let member = run(machine, '/usr/bin/etcd', ...options);
    return {
      ...machine,
      start() {
        member = run(machine, '/usr/bin/etcd', ...options);
      },
      /** Ends it with SIGKILL. */
      kill: () => process.kill(member.pid, 'SIGKILL'),
      async isLeader() {
        const stats = await fetch(`${client}/v2/stats/self`);
        return ((await stats.json()) as { state: string }).state === 'StateLeader';
      },
    };
  });

  const nodes = [1, 2, 3].map((number) => {
    const machine = network.addMachine();
    const name = `node${number}`;
    const file = `${root}/${name}.yml`;
    fs.writeFileSync(file, configurationOf(name, machine, etcd, root));
    const manage = () => run(machine, '/usr/bin/python3', '/usr/bin/patroni', file);
    let manager = manage();
    return {
      ...machine,
      name,
      /** Starts the manager again after a kill; it starts PostgreSQL. */
      start() {
        manager = manage();
      },
      /** To PostgreSQL, its manager, or both. */
      signal(what: 'manager' | 'postgres' | 'both', signal: NodeJS.Signals) {
        if (what !== 'postgres') process.kill(manager.pid, signal);
        if (what !== 'manager') signalTree(postmaster(name), signal);
      },
      /** Its timeline, which is 0 if it is a standby, and the connections of servers. Undefined if it does not answer. */
      async ask() {
        const sql = postgres(`postgres://postgres@${machine.address}/postgres`, {
          max: 1,
          connect_timeout: 1,
          onnotice: () => {},
          // Its look-up of types rejects a promise that nobody holds, if the connection fails.
          fetch_types: false,
        });
        try {
          const [row] = await sql`
            SELECT CASE WHEN NOT pg_is_in_recovery() THEN left(pg_walfile_name(pg_current_wal_lsn()), 8) END AS timeline,
              (SELECT count(*)::int FROM pg_stat_activity WHERE application_name = 'animal-store') AS backends`;
          return { timeline: Number.parseInt(row?.timeline ?? '0', 16), backends: row?.backends as number };
        } catch {
          return undefined;
        } finally {
          await sql.end({ timeout: 0 });
        }
      },
    };
  });

  const cluster = {
    nodes,
    etcd,
    /** Another machine of the network. */
    addMachine: network.addMachine,
    /** A machine with HAProxy, which leads to the primary. */
    addEntrance() {
      const machine = network.addMachine();
      const haproxy = startHaproxy({
        bind: `${machine.address}:5432`,
        nodes: nodes.map(({ address }) => ({ database: `${address}:5432` })),
        under: machine.under,
      });
      return {
        ...machine,
        ...haproxy,
        databaseUrl: (database: string) => `postgres://postgres@${machine.address}/${database}`,
      };
    },
    /** Pulls the cable of a machine; the function that it returns plugs it in again. */
    unplug(machine: Machine) {
      network.setLink(machine, 'down');
      return () => network.setLink(machine, 'up');
    },
    /** Drops what a machine sends to others; the function that it returns ends it. */
    cutOff(machine: Machine, others: Machine[]) {
      const change = (verb: 'add' | 'delete') => {
        for (const { address } of others) {
          const [file = '', ...args] = [...machine.under, 'ip', 'route', verb, 'blackhole', address];
          execFileSync(file, args, quiet);
        }
      };
      change('add');
      return () => change('delete');
    },
    /** Runs patronictl. The clients of the test go on meanwhile. */
    control: async (...args: string[]) =>
      (await promisify(execFile)('/usr/bin/patronictl', ['-c', `${root}/node1.yml`, ...args])).stdout,
  };
  await settled(cluster);
  return cluster;
}

/** Resolves when one node is the primary, and the two others follow it and one of them synchronously. */
export async function settled({ control }: Pick<Cluster, 'control'>, withinMs = 120_000) {
  const end = performance.now() + withinMs;
  for (;;) {
    let members: { Role: string; State: string; 'Lag in MB'?: number | string }[] = [];
    try {
      members = JSON.parse(await control('list', '--format', 'json'));
    } catch {
      // Not yet.
    }
    const roles = members.map(({ Role }) => Role).sort();
    if (String(roles) === 'Leader,Replica,Sync Standby' && members.every(({ State }) => State === 'running')) return;
    if (performance.now() > end) throw new Error(`the cluster did not settle:\n${JSON.stringify(members, null, 2)}`);
    await sleep(500);
  }
}
