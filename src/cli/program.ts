/** The operator's commands. Exit codes: 0 done, 1 refused or failed, 2 not understood. */
import { Command, CommanderError } from 'commander';
import { ConfigError } from '../config.ts';
import { ApiError } from '../errors.ts';
import { CopyError, OpenError } from '../repository/store.ts';
import { printError } from '../server/environment.ts';
import { accountCommands } from './accounts.ts';
import { exportCommand } from './export.ts';
import { healthCommand } from './health.ts';
import { importCommand } from './import.ts';
import { keyCommands } from './keys.ts';
import { maintenanceCommands } from './maintenance.ts';
import { CommandError } from './store.ts';
import { copyCommand } from './transfer.ts';

const program = new Command('animal-store')
  .description(
    'Operates the animal store. Settings, DATABASE_URL first of all, come from the environment and from .env.',
  )
  .exitOverride()
  .showHelpAfterError()
  .helpCommand(false);

accountCommands(program);
keyCommands(program);
maintenanceCommands(program);
importCommand(program);
exportCommand(program);
copyCommand(program);
healthCommand(program);

/** What the operator reads of an error; undefined where it is a bug of ours. */
function sentenceOf(error: unknown): string | undefined {
  if (error instanceof CommandError || error instanceof ConfigError || error instanceof CopyError) return error.message;
  if (error instanceof OpenError) return `DATABASE_URL: ${error.message}`;
  if (error instanceof ApiError) return `The store cannot answer: ${(error.cause as Error).message}.`;
  const { code, syscall, message } = error as NodeJS.ErrnoException;
  if (code === 'EPIPE') return 'The output was closed before its end.';
  return syscall && `${message}.`;
}

try {
  await program.parseAsync();
} catch (error) {
  const sentence = sentenceOf(error);
  if (error instanceof CommanderError) process.exitCode = error.exitCode === 0 ? 0 : 2;
  else if (sentence) {
    printError(sentence);
    process.exitCode = 1;
    /* c8 ignore next -- a bug of ours, with its stack */
  } else throw error;
}
