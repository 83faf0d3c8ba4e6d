/** One serving process: store → app → listen; a signal → drain → close → exit. */
import cluster from 'node:cluster';
import { lookup } from 'node:dns/promises';
import { readFileSync } from 'node:fs';
import type { AddressInfo, Socket } from 'node:net';
import type { FastifyInstance } from 'fastify';
import type { Logger } from 'pino';
import { newSecret, scopes } from '../accounts.ts';
import { buildApp } from '../app.ts';
import type { Config } from '../config.ts';
import { sunsetWarning } from '../http/deprecation.ts';
import type { Repository } from '../repository/repository.ts';
import { openStore, refuseToStart } from './start.ts';

/** Above the time-out of a request, so that one that never completes is answered 408 and the exit is still 0. */
const stopDeadlineMs = 12_000;

const now = () => new Date();

/** So that a first visitor can make a first call; in production keys are made on purpose only. */
async function giveFirstKey(store: Repository, url: string, logger: Logger, live: boolean): Promise<void> {
  if ((await store.accounts.listKeys()).length > 0) return;
  if (live) {
    logger.warn('there is no API key yet: animal-store account add NAME, then key create --account NAME --name NAME');
    return;
  }
  // Of two processes that start at once, the one that adds the account gives the key.
  if (!(await store.accounts.addAccount('first'))) return;
  const secret = newSecret(false);
  await store.accounts.addKey({ account: 'first', name: 'first', scopes: [...scopes], lifetimeMs: null, secret });
  // On stderr: a secret has no place in a log. What the log has to say comes before.
  logger.flush();
  process.stderr.write(
    `\nThe store had no API key, so here is a first one. It is shown only now:\n\n  ${secret.key}\n\nTry it:\n\n  curl -H 'Authorization: Bearer ${secret.key}' ${url}/v1/pets\n\n`,
  );
}

/** An address that a client on this machine can use. */
function localUrl({ address, port, family }: AddressInfo): string {
  if (address === '0.0.0.0') return `http://127.0.0.1:${port}`;
  if (address === '::') return `http://[::1]:${port}`;
  return family === 'IPv6' ? `http://[${address}]:${port}` : `http://${address}:${port}`;
}

function listenSentence({ HOST, PORT }: Config, { code, message }: NodeJS.ErrnoException): string {
  if (code === 'EADDRINUSE')
    return `PORT ${PORT} on ${HOST} is already in use: set PORT to a free one, or stop the process that holds it.`;
  /* c8 ignore next -- nothing is forbidden to root, as whom tests may run */
  if (code === 'EACCES') return `PORT ${PORT} may not be opened by this user: set PORT to 1024 or above.`;
  return `HOST ${HOST} cannot be listened on: ${message}.`;
}

function build(config: Config, logger: Logger, store: Repository): Promise<FastifyInstance> {
  const readDocument = (name: string) => readFileSync(new URL(`../../${name}`, import.meta.url), 'utf8');
  return buildApp({
    store,
    logger,
    now,
    live: config.DEPLOYMENT === 'production',
    baseUrl: config.BASE_URL,
    quickstartBasePath: config.QUICKSTART_BASE_PATH === 'off' ? undefined : config.QUICKSTART_BASE_PATH,
    enforceSunset: config.SUNSET_ENFORCE === 'true',
    documents: { animalStore: readDocument('openapi.yaml'), quickstart: readDocument('openapi.quickstart.yaml') },
  });
}

/** Closes kept-alive connections as they fall idle, which would otherwise hold a close until their time-out. */
function idleCloser({ server }: FastifyInstance): () => void {
  const sockets = new Set<Socket>();
  server.on('connection', (socket) => {
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
  });
  return () => {
    server.closeIdleConnections();
    // Node counts a connection on which nothing was sent yet, such as a browser's spare one, as busy.
    for (const socket of sockets) if (socket.bytesRead === 0) socket.destroy();
  };
}

/** Serves until told to stop: by a signal, or as one of several processes by the one that started them. */
export async function serve(config: Config, logger: Logger): Promise<void> {
  const store = openStore(config, logger);
  const app = await build(config, logger, store);
  const closeIdle = idleCloser(app);
  let stopping = false;

  /** Finishes what was accepted, then closes the store. A second call, or the deadline, ends at once. */
  async function stop(reason: string): Promise<void> {
    if (stopping) process.exit(1);
    stopping = true;
    logger.info({ reason }, 'stopping');
    setTimeout(() => process.exit(1), stopDeadlineMs).unref();
    const sweep = setInterval(closeIdle, 100);
    await app.close();
    clearInterval(sweep);
    await store.close();
    logger.info('stopped');
    process.exit(0);
  }

  if (cluster.isWorker) process.on('message', stop);
  // A terminal sends its signals to all processes at once: those of several wait for their supervisor's word.
  for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, cluster.isWorker ? () => undefined : stop);

  const warning = sunsetWarning(now());
  if (warning) logger.warn(warning);
  try {
    // One address, also of a name that has several: Fastify would open a second server for localhost, and not close it with care.
    await app.listen({ host: (await lookup(config.HOST)).address, port: config.PORT });
  } catch (error) {
    await store.close();
    refuseToStart(listenSentence(config, error as NodeJS.ErrnoException));
  }
  const url = localUrl(app.server.address() as AddressInfo);
  await giveFirstKey(store, url, logger, config.DEPLOYMENT === 'production');
}
