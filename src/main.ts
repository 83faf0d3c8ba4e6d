/** The server process: environment → settings → store → app → listen; signals → drain → close → exit. */
import { lookup } from 'node:dns/promises';
import { readFileSync } from 'node:fs';
import type { AddressInfo, Socket } from 'node:net';
import { type DestinationStream, pino } from 'pino';
import { newSecret, scopes } from './accounts.ts';
import { buildApp } from './app.ts';
import { type Config, type ConfigError, readConfig } from './config.ts';
import { sunsetWarning } from './http/deprecation.ts';
import { openRepository } from './repository/open.ts';
import type { OpenError, Repository } from './repository/repository.ts';

/** Above the time-out of a request, so that one that never completes is answered 408 and the exit is still 0. */
const stopDeadlineMs = 12_000;
const fatalDelayMs = 500;
const logBlockBytes = 8 * 1024;
const logFlushMs = 100;

const now = () => new Date();

/** The operator's one sentence, and no more: nothing was served yet. */
function refuseToStart(sentence: string): never {
  process.stderr.write(`animal-store: ${sentence.replaceAll('\n', '\nanimal-store: ')}\n`);
  process.exit(1);
}

function loadConfig(): Config {
  try {
    process.loadEnvFile();
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code !== 'ENOENT') refuseToStart(`.env cannot be read: ${message.replace(/\.$/, '')}.`);
  }
  try {
    return readConfig(process.env);
  } catch (error) {
    return refuseToStart((error as ConfigError).message);
  }
}

/** Readable lines on a terminal, where the development dependency for them is installed; otherwise JSON, written in blocks. */
async function openLogStream(): Promise<DestinationStream> {
  /* c8 ignore start -- on a terminal, which takes what ran with it when it goes */
  if (process.stdout.isTTY) {
    const pretty = await import('pino-pretty').catch(() => undefined);
    if (pretty) return pretty.default({ sync: true, translateTime: 'SYS:HH:MM:ss', ignore: 'pid,hostname' });
  }
  /* c8 ignore stop */
  // pino writes what is left when the process exits.
  const stream = pino.destination({ fd: 1, sync: false, minLength: logBlockBytes });
  setInterval(() => stream.flush(), logFlushMs).unref();
  return stream;
}

function openStore(config: Config): Repository {
  const onMigration = (name: string) => logger.info(`migration ${name} applied`);
  try {
    return openRepository(config.DATABASE_URL, { now, onMigration, onFatal });
  } catch (error) {
    return refuseToStart(`DATABASE_URL: ${(error as OpenError).message}`);
  }
}

/** The store can promise nothing more: what waits is answered 503, then the process ends, for its supervisor to start anew. */
/* c8 ignore start -- the disk must fail for this */
function onFatal(error: Error): void {
  logger.fatal({ err: error }, 'the store can no longer be written to');
  setTimeout(() => process.exit(1), fatalDelayMs);
}
/* c8 ignore stop */

/** So that a first visitor can make a first call; in production keys are made on purpose only. */
async function giveFirstKey(store: Repository, url: string): Promise<void> {
  if ((await store.accounts.listKeys()).length > 0) return;
  // Of two processes that start at once, the one that adds the account gives the key.
  if (!(await store.accounts.addAccount('first'))) return;
  const secret = newSecret(false);
  await store.accounts.addKey({ account: 'first', name: 'first', scopes: [...scopes], expiresAt: null, secret });
  // On stderr: a secret has no place in a log.
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

const config = loadConfig();
const logger = pino({ level: config.LOG_LEVEL }, await openLogStream());
const store = openStore(config);
const live = config.DEPLOYMENT === 'production';
const readDocument = (name: string) => readFileSync(new URL(`../${name}`, import.meta.url), 'utf8');
const app = await buildApp({
  store,
  logger,
  now,
  live,
  baseUrl: config.BASE_URL,
  quickstartBasePath: config.QUICKSTART_BASE_PATH === 'off' ? undefined : config.QUICKSTART_BASE_PATH,
  enforceSunset: config.SUNSET_ENFORCE === 'true',
  documents: { animalStore: readDocument('openapi.yaml'), quickstart: readDocument('openapi.quickstart.yaml') },
});

let stopping = false;
const sockets = new Set<Socket>();
app.server.on('connection', (socket) => {
  sockets.add(socket);
  socket.once('close', () => sockets.delete(socket));
});

/** A kept-alive connection that falls idle would otherwise hold the close until its time-out. */
function closeIdle(): void {
  app.server.closeIdleConnections();
  // Node counts a connection on which nothing was sent yet, such as a browser's spare one, as busy.
  for (const socket of sockets) if (socket.bytesRead === 0) socket.destroy();
}

/** Finishes what was accepted, then closes the store. A second signal, or the deadline, ends at once. */
async function stop(signal: NodeJS.Signals): Promise<void> {
  if (stopping) process.exit(1);
  stopping = true;
  logger.info({ signal }, 'stopping');
  setTimeout(() => process.exit(1), stopDeadlineMs).unref();
  const sweep = setInterval(closeIdle, 100);
  await app.close();
  clearInterval(sweep);
  await store.close();
  logger.info('stopped');
  process.exit(0);
}

process.on('SIGTERM', stop);
process.on('SIGINT', stop);

const warning = sunsetWarning(now());
if (warning) logger.warn(warning);

try {
  // One address, also of a name that has several: Fastify would open a second server for localhost, and not close it with care.
  await app.listen({ host: (await lookup(config.HOST)).address, port: config.PORT });
} catch (error) {
  await store.close();
  refuseToStart(listenSentence(config, error as NodeJS.ErrnoException));
}
if (!live) await giveFirstKey(store, localUrl(app.server.address() as AddressInfo));
