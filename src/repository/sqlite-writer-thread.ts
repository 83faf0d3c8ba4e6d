/** The thread that writes: its own connection, one transaction for all that one message brings, one reply. */
import { type MessagePort, parentPort, workerData } from 'node:worker_threads';
import { type CommandName, prepareCommands } from './sqlite-commands.ts';
import { openConnection } from './sqlite-connection.ts';

export type Write = [name: CommandName, input: never];

/** To the thread: all writes that wait. null: no more will come. */
export type Request = Write[] | null;

/** From the thread: what became of the oldest `count` unanswered writes, which shared one transaction. */
export type Reply =
  | { count: number; outputs: unknown[] }
  | { count: number; error: { code: string | undefined; message: string } };

/** So many writes share one transaction: a larger one would hold the lock, and its own answers, for too long. */
const maxBatch = 1000;

const port = parentPort as MessagePort;
const connection = openConnection(workerData as string);
const commands = prepareCommands(connection);
const run = connection.transaction((batch: Write[]) => batch.map(([name, input]) => commands[name](input)));

function commit(batch: Write[]): void {
  const count = batch.length;
  try {
    port.postMessage({ count, outputs: run.immediate(batch) } satisfies Reply);
  } catch (error) {
    const { code, message } = error as { code?: string; message: string };
    port.postMessage({ count, error: { code, message } } satisfies Reply);
  }
}

port.on('message', (request: Request) => {
  if (request === null) {
    connection.close();
    port.close();
    return;
  }
  for (let from = 0; from < request.length; from += maxBatch) commit(request.slice(from, from + maxBatch));
});
