/** The operator's commands as one function. Exit codes: 0 done, 1 refused or failed, 2 not understood. */
import { ConfigError } from '../config.ts';
import { RefusedError } from '../core/accounts.ts';
import { closest } from '../core/closest.ts';
import { ApiError, codeOf, messageOf } from '../core/errors.ts';
import { limits } from '../core/limits.ts';
import { releaseText } from '../server/release.ts';
import { CopyError, OpenError } from '../store/store.ts';
import { accountCommands } from './accounts.ts';
import { type Command, CommandError, createCli, type Io, inColumns, refuse } from './command.ts';
import { misuse, readInputs, UsageError } from './inputs.ts';
import { keyCommands } from './keys.ts';
import { maintenanceCommands } from './maintenance.ts';
import { transferCommands } from './transfer.ts';

const commands = new Map(
  Object.entries({ ...accountCommands, ...keyCommands, ...maintenanceCommands, ...transferCommands }),
);

/** Runs one command and resolves with its exit code. Rejects only if the command has a bug. Adds to `env` what .env has. */
export async function run(argv: string[], env: NodeJS.ProcessEnv, io: Io): Promise<number> {
  const cli = createCli(env, io);
  const outputs = [io.stdout, io.stderr];
  const words = commands.has(argv.slice(0, 2).join(' ')) ? 2 : 1;
  const name = argv.slice(0, words).join(' ');
  const command = commands.get(name);
  let unwritable: Error | undefined;
  // The command goes on: what it changes matters more than what it prints.
  for (const stream of outputs)
    stream.on('error', (error) => {
      unwritable ??= error;
    });
  try {
    if (argv.includes('-h') || argv.includes('--help')) cli.print(helpOf(name));
    else if (name === '--version') cli.print(releaseText());
    else if (command) await command.run(cli, readInputs(command, argv.slice(words)));
    else misuse(unknown(argv));
    for (const stream of outputs) await new Promise((resolve) => stream.write('', resolve));
    if (unwritable)
      refuse(`The output cannot be written (${messageOf(unwritable)}). What the command has changed stays.`);
    return 0;
  } catch (error) {
    if (error instanceof UsageError || codeOf(error).startsWith('ERR_PARSE_ARGS')) {
      const [sentence = ''] = messageOf(error).split('. To specify a positional');
      const usage = command ? usageOf(name, command) : 'Help: npx animal-store --help';
      cli.note(argv.length === 0 || isGroup(argv) ? helpOf(name) : `error: ${sentence}\n${usage}`);
      return 2;
    }
    const sentence = sentenceOf(error);
    if (!sentence) throw error;
    cli.printError(sentence);
    return 1;
  }
}

/** The commands whose first word is `name`. */
const groupOf = (name: string) => [...commands].filter(([each]) => each.startsWith(`${name} `));

/** Whether only the first word of a command was given. */
const isGroup = (argv: string[]) => argv.length === 1 && groupOf(argv[0] as string).length > 0;

function unknown(argv: string[]): string {
  const given = argv.slice(0, groupOf(argv[0] as string).length > 0 ? 2 : 1).join(' ');
  const meant = closest(given, [...commands.keys()]);
  return `Unknown command '${given}'.${meant ? ` Did you mean '${meant}'?` : ''}`;
}

function usageOf(name: string, { inputs }: Command): string {
  return ['Usage: animal-store', name, ...Object.keys(inputs)].join(' ');
}

/** The help of a command, of all those of a group, or else a list of all commands. */
function helpOf(name: string): string {
  const command = commands.get(name);
  if (command) {
    const { about, inputs } = command;
    return [usageOf(name, command), about, inColumns(Object.entries(inputs))].join('\n\n').trimEnd();
  }
  const group = groupOf(name).map(([each]) => helpOf(each));
  if (group.length > 0) return group.join('\n\n\n');
  const rows = [...commands].map(([each, { about }]) => [each, about]);
  return `Usage: animal-store <command>\n\n${inColumns(rows)}\n\n${manual}`;
}

const manual = `\
animal-store <command> --help shows what it takes, --version prints the version.
Settings (DATABASE_URL and others) come from the environment and from .env.`;

/** The error in words for the operator; undefined if it is a bug. */
function sentenceOf(error: unknown): string | undefined {
  if (error instanceof CommandError || error instanceof ConfigError || error instanceof CopyError) return error.message;
  if (error instanceof OpenError) return `DATABASE_URL: ${error.message}`;
  if (error instanceof RefusedError)
    return `The account has ${limits.activeKeys} active keys, the most that it can have: revoke one first.`;
  if (error instanceof ApiError) {
    const { cause } = error;
    // By its name, because the PostgreSQL driver takes long to load.
    if (cause instanceof Error && cause.name === 'StandbyError')
      return `It is unknown whether this will last: ${cause.message}. Look at the list before you repeat it.`;
    return `The store cannot answer: ${messageOf(cause)}.`;
  }
  const { code, syscall, message, path } = error as NodeJS.ErrnoException;
  if (code === 'EPIPE') return 'The output was closed before its end.';
  if (code === 'ENOENT' && path) return `${path} does not exist.`;
  return syscall && `${message}.`;
}
