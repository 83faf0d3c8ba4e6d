/** The operator's commands as one function. Exit codes: 0 done, 1 refused or failed, 2 not understood. */
import { existsSync } from 'node:fs';
import path from 'node:path';
import { Command, CommanderError } from 'commander';
import { ConfigError } from '../config.ts';
import { ApiError, messageOf } from '../core/errors.ts';
import { releaseText } from '../server/release.ts';
import { CopyError, OpenError } from '../store/store.ts';
import { accountCommands } from './accounts.ts';
import { CommandError, type Context, createContext, type Io } from './context.ts';
import { exportCommand } from './export.ts';
import { importCommand } from './import.ts';
import { keyCommands } from './keys.ts';
import { healthCommand, maintenanceCommands } from './maintenance.ts';
import { copyCommand } from './transfer.ts';
import { explainUsage, withoutFarSuggestions } from './usage.ts';

/** Runs one command and resolves with its exit code. Rejects only if the command has a bug. `.env` is read from `io.cwd` into `env`. */
export async function run(argv: string[], env: NodeJS.ProcessEnv, io: Io): Promise<number> {
  const context = createContext(env, io);
  let unwritable: Error | undefined;
  // The command goes on: what it changes matters more than what it prints.
  for (const stream of [io.stdout, io.stderr])
    stream.on('error', (error) => {
      unwritable ??= error;
    });
  try {
    await createProgram(context, io).parseAsync(argv, { from: 'user' });
    for (const stream of [io.stdout, io.stderr]) await new Promise((resolve) => stream.write('', resolve));
    if (unwritable) throw unwritable;
    return 0;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
    const sentence = sentenceOf(error, context);
    if (!sentence) throw error;
    context.printError(sentence);
    return 1;
  }
}

/** The width of --help where there is no terminal. */
const helpColumns = 80;

function createProgram(context: Context, { stdout, stderr }: Io): Command {
  const program = new Command('animal-store')
    .description(
      'Manages the animal store. Settings (DATABASE_URL and others) come from the environment and from .env.',
    )
    .version(releaseText, '--version', 'display the version')
    .exitOverride()
    .configureOutput({
      writeOut: (text) => stdout.write(text),
      writeErr: (text) => stderr.write(text),
      outputError: (text, write) => write(withoutFarSuggestions(text)),
      // Commander would ask the process's own terminal.
      getOutHelpWidth: () => stdout.columns ?? helpColumns,
      getErrHelpWidth: () => stderr.columns ?? helpColumns,
    })
    .helpCommand(false);
  accountCommands(program, context);
  keyCommands(program, context);
  maintenanceCommands(program, context);
  importCommand(program, context);
  exportCommand(program, context);
  copyCommand(program, context);
  healthCommand(program, context);
  explainUsage(program);
  return program;
}

/** The error in words for the operator; undefined if it is a bug. */
function sentenceOf(error: unknown, { asGiven }: Context): string | undefined {
  if (error instanceof CommandError || error instanceof ConfigError) return error.message;
  if (error instanceof CopyError) return asGiven(error.message);
  if (error instanceof OpenError) return asGiven(`DATABASE_URL: ${error.message}`);
  if (error instanceof ApiError) return asGiven(refusalOf(error.cause));
  if (!(error instanceof Error)) return undefined;
  const { code, syscall, message, path: file }: NodeJS.ErrnoException = error;
  if (code === 'EPIPE') return 'The output was closed before its end.';
  if (code === 'ENOENT' && file !== undefined) return asGiven(`${missingPart(file)} does not exist.`);
  return syscall && asGiven(`${message}.`);
}

/** By its name, because the PostgreSQL driver takes long to load. */
function refusalOf(cause: unknown): string {
  const message = messageOf(cause);
  if (cause instanceof Error && cause.name === 'StandbyError')
    return `It is unknown whether this will last: ${message}. Look at the list before you repeat it.`;
  return `The store cannot answer: ${message}.`;
}

/** The folder of `file` if it does not exist, otherwise the file. */
function missingPart(file: string): string {
  const folder = path.dirname(file);
  return existsSync(folder) ? file : folder;
}
