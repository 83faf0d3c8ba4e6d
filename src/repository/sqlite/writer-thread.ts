/** The thread that writes: its own connection, one transaction for all that one message brings, one reply. */
import { type MessagePort, parentPort, workerData } from 'node:worker_threads';
import { type CommandName, prepareCommands } from './commands.ts';
import { checkpoint, openConnection } from './connection.ts';

export type Write = [name: CommandName, input: never];

/** To the thread: all writes that wait, as JSON of Write[]: to clone their objects costs as much as to insert them. null: no more will come. */
export type Request = string | null;

/** From the thread: what became of the oldest `count` unanswered writes, which shared one transaction. `outputs`: JSON of an array. */
export type Reply =
  | { count: number; outputs: string }
  | { count: number; error: { code: string | undefined; message: string } };

/** So many writes share one transaction: a larger one would hold the lock, and its own answers, for too long. */
const maxBatch = 1000;

/** Writes between two checkpoints: a few MiB of WAL, as each dirties some pages of 4 KiB, most of them shared with others of its batch. */
const checkpointEvery = 1000;

const port = parentPort as MessagePort;
const connection = openConnection(workerData as string);
const commands = prepareCommands(connection);
const run = connection.transaction((batch: Write[]) => batch.map(([name, input]) => commands[name](input)));

let uncheckpointed = 0;

function tell(count: number, act: () => unknown[]): void {
  try {
    port.postMessage({ count, outputs: JSON.stringify(act()) } satisfies Reply);
  } catch (error) {
    const { code, message } = error as { code?: string; message: string };
    port.postMessage({ count, error: { code, message } } satisfies Reply);
  }
}

/** After the answers: no writer waits for it, but the next one. */
function moveIntoFile(): void {
  tell(0, () => {
    uncheckpointed = 0;
    checkpoint(connection);
    return [];
  });
}

port.on('message', (request: Request) => {
  if (request === null) {
    moveIntoFile();
    connection.close();
    port.close();
    return;
  }
  const writes: Write[] = JSON.parse(request);
  for (let from = 0; from < writes.length; from += maxBatch) {
    const batch = writes.slice(from, from + maxBatch);
    tell(batch.length, () => run.immediate(batch));
    uncheckpointed += batch.length;
    if (uncheckpointed >= checkpointEvery) moveIntoFile();
  }
});
