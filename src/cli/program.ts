/** The operator's commands as one function. Exit codes: 0 done, 1 refused or failed, 2 not understood. */
import { parseArgs } from 'node:util';
import { ConfigError } from '../config.ts';
import { KeyLimitError } from '../core/accounts.ts';
import { ApiError, codeOf, messageOf } from '../core/errors.ts';
import { limits } from '../core/limits.ts';
import { releaseText } from '../server/release.ts';
import { CopyError, OpenError } from '../store/store.ts';
import { accountCommands } from './accounts.ts';
import { type Command, CommandError, createCli, type Io } from './command.ts';
import { keyCommands } from './keys.ts';
import { type Kind, kinds } from './kinds.ts';
import { maintenanceCommands } from './maintenance.ts';
import { transferCommands } from './transfer.ts';

const commands = new Map<string, Command>(
  Object.entries({ ...accountCommands, ...keyCommands, ...maintenanceCommands, ...transferCommands }),
);

/** The command line is not understood. The message is one line, without a full stop. */
class UsageError extends Error {}

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
    if (argv.some((word) => word === '-h' || word === '--help')) cli.print(helpOf(name));
    else if (name === '--version') cli.print(releaseText);
    else if (command) await command.run(cli, readInputs(command, argv.slice(words)));
    else throw new UsageError(`Unknown command '${argv.slice(0, 2).join(' ')}'`);
    for (const stream of outputs) await new Promise((resolve) => stream.write('', resolve));
    if (unwritable) throw unwritable;
    return 0;
  } catch (error) {
    if (error instanceof UsageError || codeOf(error).startsWith('ERR_PARSE_ARGS')) {
      const [sentence = ''] = messageOf(error).split('. To specify a positional');
      const usage = command
        ? `${usageOf(name, command)}\nHelp: animal-store ${name} --help`
        : 'Help: animal-store --help';
      cli.note(argv.length === 0 ? helpOf('') : `error: ${sentence}\n${usage}`);
      return 2;
    }
    const sentence = sentenceOf(error);
    if (!sentence) throw error;
    cli.printError(sentence);
    return 1;
  }
}

const optionIn = (label: string) => /--(\w+)/.exec(label)?.[1];
const kindIn = (label: string) => /<(.+)>/.exec(label)?.[1] ?? '';

/** The values of a command's inputs. Throws UsageError, or an error of parseArgs. */
function readInputs({ inputs }: Command, args: string[]): Record<string, never> {
  const labels = Object.keys(inputs);
  const types = labels.map((label) => [optionIn(label), { type: kindIn(label) ? 'string' : 'boolean' }] as const);
  const options = Object.fromEntries(types.filter(([option]) => option));
  const { positionals, ...parsed } = parseArgs({ args, options, allowPositionals: true });
  const values: Record<string, unknown> = parsed.values;
  const read = labels.map((label) => {
    const [option, kind] = [optionIn(label), kindIn(label)];
    const text = option ? values[option] : positionals.shift();
    if (text === undefined && !label.startsWith('[')) throw new UsageError(`${label} is missing`);
    const rule = (kinds as Record<string, Kind>)[kind];
    const value = typeof text === 'string' && rule ? rule.read(text) : text;
    // Without the text, which may be a URL with a password.
    if (value === undefined && text !== undefined)
      throw new UsageError(`${option ? `--${option}` : `<${kind}>`} must be ${rule?.must}.`);
    return [option ?? kind, value];
  });
  if (positionals.length > 0) throw new UsageError(`Unknown argument '${positionals[0]}'`);
  return Object.fromEntries(read);
}

function usageOf(name: string, { inputs }: Command): string {
  return ['Usage: animal-store', name, ...Object.keys(inputs)].join(' ');
}

function helpOf(name: string): string {
  const command = commands.get(name);
  if (!command) {
    const rows = [...commands].map(([each, { about }]) => [each, about]);
    return `Usage: animal-store <command>\n\n${inColumns(rows)}\n\n${manual}`;
  }
  const { about, inputs, example } = command;
  const parts = [usageOf(name, command), about, inColumns(Object.entries(inputs))];
  if (example) parts.push(`Example: animal-store ${name} ${example}`);
  return parts.filter(Boolean).join('\n\n');
}

const manual = `\
animal-store <command> --help shows what it takes, --version prints the version.
Settings (DATABASE_URL and others) come from the environment and from .env.`;

/** Rows of two columns. */
function inColumns(rows: string[][]): string {
  const width = Math.max(...rows.map(([term = '']) => term.length));
  return rows.map(([term = '', about]) => `  ${term.padEnd(width)}  ${about}`).join('\n');
}

/** The error in words for the operator; undefined if it is a bug. */
function sentenceOf(error: unknown): string | undefined {
  if (error instanceof CommandError || error instanceof ConfigError || error instanceof CopyError) return error.message;
  if (error instanceof OpenError) return `DATABASE_URL: ${error.message}`;
  if (error instanceof KeyLimitError)
    return `The account has ${limits.activeKeys} active keys, the most that an account can have: revoke one first.`;
  if (error instanceof ApiError) {
    const { cause } = error;
    // By its name, because the PostgreSQL driver takes long to load.
    if (cause instanceof Error && cause.name === 'StandbyError')
      return `It is unknown whether this will last: ${cause.message}. Look at the list before you repeat it.`;
    return `The store cannot answer: ${messageOf(cause)}.`;
  }
  if (!(error instanceof Error)) return undefined;
  const { code, syscall, message, path }: NodeJS.ErrnoException = error;
  if (code === 'EPIPE') return 'The output was closed before its end.';
  if (code === 'ENOENT' && path !== undefined) return `${path} does not exist.`;
  return syscall && `${message}.`;
}
