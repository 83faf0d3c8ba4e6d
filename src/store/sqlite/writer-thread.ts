/** The writer thread: runs the writes of each message in transactions on its own connection, and replies to each batch. */
import { type MessagePort, parentPort, workerData } from 'node:worker_threads';
import { codeOf, messageOf } from '../../core/errors.ts';
import { prepareCommands, type Write } from './commands.ts';
import { checkpoint, openConnection, translate, watchFile } from './connection.ts';

/** To the thread: Write[] as JSON text, because cloning the objects costs as much as inserting them. null: no more writes follow. */
export type Request = string | null;

/**
 * From the thread: the result of the oldest `count` pending writes, which shared one transaction. `outputs`: an array as JSON text. `type`
 * distinguishes it from other messages: with --watch, Node posts some from every thread.
 */
export type Reply = { type: 'writer-reply'; count: number } & (
  | { outputs: string }
  | { error: { code: string | undefined; message: string } }
);

/** Writes per transaction: a larger one would hold the write lock, and delay its responses, for too long. */
const maxBatch = 1000;

/** Writes between two checkpoints. The WAL grows by a few MiB: a write changes several 4 KiB pages, mostly shared with its batch. */
const checkpointEvery = 1000;

/** How many writes one counts as: each use of a key changes some three pages of its own. */
const weightOf = ([name, input]: Write) => (name === 'recordUses' ? 4 * input.uses.length : 1);

const port = parentPort as MessagePort;
const [file, given]: [string, string] = workerData;
const connection = openConnection(file);
// In KiB: half of what better-sqlite3 sets. It saves 8 MB; with a quarter, an import takes a tenth longer.
connection.pragma('cache_size = -8000');
const runCommands = prepareCommands(connection);
const refuseMoved = watchFile(file, given);
const run = connection.transaction((batch: Write[]) => {
  refuseMoved();
  return runCommands(batch);
});

let uncheckpointed = 0;

function reply(count: number, outputs: unknown[]): void {
  port.postMessage({ type: 'writer-reply', count, outputs: JSON.stringify(outputs) } satisfies Reply);
}

function replyError(count: number, error: unknown): void {
  const fault = { code: codeOf(error) || undefined, message: messageOf(error) };
  port.postMessage({ type: 'writer-reply', count, error: fault } satisfies Reply);
}

function runBatch(batch: Write[]): void {
  let outputs: unknown[];
  try {
    outputs = run.immediate(batch);
  } catch (error) {
    // A disk error concerns all of them. A write that breaks a constraint must not fail the others.
    const shared = translate(error) !== error;
    if (shared || batch.length === 1) replyError(batch.length, error);
    else for (const write of batch) runBatch([write]);
    return;
  }
  reply(batch.length, outputs);
}

/** Runs after the replies, so only the next batch waits for it. */
function runCheckpoint(): void {
  uncheckpointed = 0;
  try {
    checkpoint(connection);
    reply(0, []);
  } catch (error) {
    replyError(0, error);
  }
}

port.on('message', (request: Request) => {
  if (request === null) {
    runCheckpoint();
    connection.close();
    port.close();
    return;
  }
  const writes: Write[] = JSON.parse(request);
  for (let from = 0; from < writes.length; from += maxBatch) {
    const batch = writes.slice(from, from + maxBatch);
    runBatch(batch);
    for (const write of batch) uncheckpointed += weightOf(write);
    if (uncheckpointed >= checkpointEvery) runCheckpoint();
  }
});
