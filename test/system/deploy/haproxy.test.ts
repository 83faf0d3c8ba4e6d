/** Tests deploy/patroni/haproxy.cfg with a real HAProxy, in front of nodes that say what the test wants. A real cluster is in test/system/cluster. */
import { createServer as createHttpServer } from 'node:http';
import { connect, createServer } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { beforeEach, expect, onTestFinished, test } from 'vitest';
import { missingHaproxy, startHaproxy } from '../../support/haproxy.ts';
import { findPort } from '../../support/known-port.ts';
import { listen } from '../../support/raw.ts';

beforeEach(({ skip }) => {
  if (missingHaproxy) skip(missingHaproxy);
});

/** What the manager of a node answers; `hangs`: nothing. */
type State = 'primary' | 'standby' | 'hangs';

/** A node whose database greets with the name of the node. */
async function startNode(state: State, index: number) {
  const node = { state, database: '', manager: 0 };
  const manager = createHttpServer(({ url }, response) => {
    if (node.state !== 'hangs') response.writeHead(url === '/primary' && node.state === 'primary' ? 200 : 503).end();
  });
  onTestFinished(() => manager.closeAllConnections());
  const database = createServer((socket) => void socket.on('error', () => {}).write(`node${index + 1}`));
  node.manager = await listen(manager);
  node.database = `127.0.0.1:${await listen(database)}`;
  return node;
}

/** Three nodes behind HAProxy, which has just started. */
async function start(...states: [State, State, State]) {
  const nodes = (await Promise.all(states.map(startNode))) as [Node, Node, Node];
  const port = await findPort();
  const haproxy = startHaproxy({ bind: `127.0.0.1:${port}`, nodes });
  await expect.poll(() => open(port).then(({ leadsTo }) => leadsTo), { interval: 5 }).not.toBe('ECONNREFUSED');
  return { nodes, haproxy, port };
}

/** The same, when the first node is the primary; with a connection to it. */
async function startLed() {
  const started = await start('primary', 'standby', 'standby');
  expect(await nodesOf(started.port, 1500)).toEqual(['node1']);
  const { leadsTo, closed } = await open(started.port);
  expect(leadsTo).toBe('node1');
  return { ...started, closed };
}

type Node = Awaited<ReturnType<typeof startNode>>;

/** Opens a connection; `leadsTo` is the node that it leads to, or the error. */
async function open(port: number) {
  const socket = connect(port, '127.0.0.1');
  onTestFinished(() => void socket.destroy());
  const closed = new Promise<number>((resolve) => socket.once('close', () => resolve(performance.now())));
  const leadsTo = await new Promise<string>((resolve) => {
    socket.once('data', (bytes) => resolve(String(bytes)));
    socket.once('error', ({ code = '' }: NodeJS.ErrnoException) => resolve(code));
    socket.once('close', () => resolve('closed'));
  });
  return { leadsTo, closed };
}

/** The nodes that connections led to in this time, in the order in which they first appeared. */
async function nodesOf(port: number, ms: number) {
  const nodes = new Set<string>();
  for (const end = performance.now() + ms; performance.now() < end; await sleep(5)) {
    const { leadsTo } = await open(port);
    if (leadsTo.startsWith('node')) nodes.add(leadsTo);
  }
  return [...nodes];
}

test('from the start on, and after a restart, a connection leads to the primary or is refused', async () => {
  const { port, haproxy } = await start('standby', 'hangs', 'primary');
  expect(await nodesOf(port, 2500)).toEqual(['node3']);
  haproxy.signal('SIGKILL');
  haproxy.start();
  expect(await nodesOf(port, 2500)).toEqual(['node3']);
});

test('an old primary whose manager hangs loses its connections', async () => {
  const { port, nodes, closed } = await startLed();
  nodes[0].state = 'hangs';
  const since = performance.now();
  const lostAt = await Promise.race([closed, sleep(5000, Number.POSITIVE_INFINITY)]);
  expect(lostAt - since).toBeLessThan(4000);
  nodes[1].state = 'primary';
  expect(await nodesOf(port, 1500)).toEqual(['node2']);
});

test('while two nodes say that they are the primary, no connection is accepted', async () => {
  const { port, nodes } = await startLed();
  nodes[1].state = 'primary';
  await sleep(1500);
  expect(await nodesOf(port, 1000)).toEqual([]);
  nodes[0].state = 'standby';
  expect(await nodesOf(port, 3000)).toEqual(['node2']);
});
