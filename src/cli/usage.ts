/** An example in every --help, and short errors for wrong arguments. */
import type { Command } from 'commander';

/** The example of each command, by its name without the program's. */
const examples: Record<string, string> = {
  '': 'key list',
  account: 'account list',
  'account add': 'account add website',
  'account list': 'account list --json',
  'account remove': 'account remove website',
  'account invite': 'account invite keeper',
  'account reset': 'account reset keeper',
  key: 'key list --account website',
  'key create': 'key create --account website --name till --scopes pets:read --expires 90d',
  'key list': 'key list --account website',
  'key revoke': 'key revoke 1',
  'key rotate': 'key rotate 1 --overlap 24h',
  'key usage': 'key usage 1',
  migrate: 'migrate',
  check: 'check data/backup.db',
  backup: 'backup data/backup.db',
  restore: 'restore data/backup.db',
  import: 'import data/animals.jsonl',
  export: 'export data/animals.jsonl --status available',
  copy: 'copy --from sqlite:data/animal-store.db --to postgres://animals@db.example.com/animals',
  health: 'health',
};

/** Gives each command its example, and the lines that follow an error. Call this after all commands have been added. */
export function explainUsage(program: Command): void {
  for (const [name, command] of namesOf(program)) {
    // Commander's own usage line leaves out the options that a command needs.
    const needed = command.options.filter(({ mandatory }) => mandatory).map(({ flags }) => flags);
    command.usage([...needed, command.usage()].join(' '));
    const subcommands = command.commands.map((subcommand) => subcommand.name()).join(', ');
    const lines = [
      `Usage: ${command.createHelp().commandUsage(command)}`,
      ...(subcommands === '' ? [] : [`Commands: ${subcommands}`]),
      `Help: ${[program.name(), name, '--help'].filter(Boolean).join(' ')}`,
    ];
    command
      .showHelpAfterError(lines.join('\n'))
      .addHelpText('after', `\nExample:\n  ${program.name()} ${examples[name]}`);
  }
}

/** The command and its subcommands, each after its name without the program's. */
function namesOf(command: Command, name = ''): [string, Command][] {
  const below = command.commands.flatMap((subcommand) => namesOf(subcommand, `${name} ${subcommand.name()}`.trim()));
  return [[name, command], ...below];
}

/** Commander also suggests words that have little in common: `reset` for `delete`, `restore` for `restart`. */
export function withoutFarSuggestions(error: string): string {
  return error.replace(/'(.+)'\n\(Did you mean (?:one of )?(.+)\?\)/, (_all, typed: string, words: string) => {
    const near = words.split(', ').filter((word) => isTypo(typed, word));
    return `'${typed}'${near.length > 0 ? `\nDid you mean ${near.join(' or ')}?` : ''}`;
  });
}

/** Whether one typing error makes `typed` out of `word`: a character that is missing, wrong or too many, or two that are swapped. */
function isTypo(typed: string, word: string): boolean {
  const shorter = Math.min(typed.length, word.length);
  let start = 0;
  while (start < shorter && typed[start] === word[start]) start += 1;
  let end = 0;
  while (end < shorter - start && typed.at(-1 - end) === word.at(-1 - end)) end += 1;
  const middleOf = (text: string) => text.slice(start, text.length - end);
  const [one, other] = [middleOf(typed), middleOf(word)];
  return Math.max(one.length, other.length) <= 1 || (one.length === 2 && one === `${other[1]}${other[0]}`);
}
