/** Group commit: all writes that arrive in one turn of the event loop share one transaction and one fsync. */

import type { CommandName, Commands } from './sqlite-commands.ts';
import { translate } from './sqlite-connection.ts';

type Input<Name extends CommandName> = Parameters<Commands[Name]>[0];
type Output<Name extends CommandName> = ReturnType<Commands[Name]>;

interface Pending {
  name: CommandName;
  input: never;
  resolve: (output: never) => void;
  reject: (error: unknown) => void;
}

export interface Writer {
  /** Resolves after the commit, and so the fsync, that holds the write; rejects where nothing was written or nobody knows. */
  write<Name extends CommandName>(name: Name, input: Input<Name>): Promise<Output<Name>>;
  /** Commits what is pending. */
  flush(): void;
}

/** `transact` runs a function in one transaction, as better-sqlite3's `transaction` does. */
export function createWriter(commands: Commands, transact: (run: () => unknown[]) => unknown[]): Writer {
  let pending: Pending[] = [];

  function flush(): void {
    const batch = pending;
    pending = [];
    if (batch.length === 0) return;
    try {
      const outputs = transact(() => batch.map(({ name, input }) => commands[name](input)));
      for (const [index, { resolve }] of batch.entries()) resolve(outputs[index] as never);
    } catch (error) {
      const failure = translate(error);
      for (const { reject } of batch) reject(failure);
    }
  }

  return {
    write(name, input) {
      if (pending.length === 0) setImmediate(flush);
      return new Promise((resolve, reject) => pending.push({ name, input: input as never, resolve, reject }));
    },
    flush,
  };
}
