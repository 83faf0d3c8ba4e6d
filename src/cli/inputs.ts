/** Reads the arguments and options of a command. */
import { parseArgs } from 'node:util';
import { sqlitePath, sqliteTitle } from '../config.ts';
import { isName, scopes } from '../core/accounts.ts';
import { statuses } from '../core/pets.ts';
import type { Command, Values } from './command.ts';

/** The command line is invalid. */
export class UsageError extends Error {}

/** Throws UsageError. */
export function misuse(message: string): never {
  throw new UsageError(message);
}

interface Kind {
  /** Returns undefined if the text is invalid. */
  read: (text: string) => unknown;
  must: string;
}

const unitMs: Readonly<Record<string, number>> = { m: 60_000, h: 3_600_000, d: 86_400_000 };

/** Reads `30m`, `24h` or `90d` as milliseconds. */
const durationFrom = (least: number): Kind => ({
  read(text: string) {
    const [, count, unit = ''] = /^(\d{1,5})([mhd])$/.exec(text) ?? [];
    const ms = unitMs[unit];
    return ms === undefined || Number(count) < least ? undefined : Number(count) * ms;
  },
  must: `a whole number from ${least} to 99999 and m, h or d, such as 24h`,
});

const aPath = 'the path of a file, without a space at either end';

/** better-sqlite3 removes spaces at the ends, and would open another file. */
const readPath = (text: string) => (text !== '' && text === text.trim() ? text : undefined);

/** How each kind of input is read, by its name in the usage. Others are any text. */
const kinds: Record<string, Kind> = {
  duration: durationFrom(0),
  lifetime: durationFrom(1),
  id: {
    read: (text) => (/^[1-9]\d{0,14}$/.test(text) ? Number(text) : undefined),
    must: 'the number that key list shows',
  },
  /** In NFC, as the forms of the account pages have it: otherwise nobody could sign in with it. */
  name: {
    read: (text) => (isName(text.normalize('NFC')) ? text.normalize('NFC') : undefined),
    must: '1 to 100 printable characters, without a space at either end',
  },
  scopes: {
    read(text: string) {
      const given = text.split(',');
      const known = scopes.filter((scope) => given.includes(scope));
      return given.every((scope) => known.includes(scope as never)) ? known : undefined;
    },
    must: `one or more of ${scopes.join(',')}`,
  },
  status: {
    read: (text) => statuses.find((status) => status === text),
    must: `one of ${statuses.join(', ')}`,
  },
  file: {
    read: (text) => (text === '-' ? undefined : readPath(text)),
    must: `${aPath}; write ./- for a file that is named -`,
  },
  /** `-` is a stream. */
  'file|-': { read: readPath, must: `${aPath}, or -` },
  'sqlite-url': {
    read: (text) => new RegExp(`^sqlite:(${sqlitePath})$`).exec(text)?.[1],
    must: sqliteTitle,
  },
  'postgres-url': {
    read: (text) => /^postgres(ql)?:\/\/.*/.exec(text)?.[0],
    must: 'postgres://user:password@host:port/database',
  },
};

const optionIn = (label: string) => /--(\w+)/.exec(label)?.[1];
const kindIn = (label: string) => /<(.+)>/.exec(label)?.[1] ?? '';

/** The values of a command's inputs. Throws UsageError, or an error of parseArgs. */
export function readInputs({ inputs }: Command, args: string[]): Values {
  const labels = Object.keys(inputs);
  const types = labels.map((label) => [optionIn(label), { type: kindIn(label) ? 'string' : 'boolean' }] as const);
  const options = Object.fromEntries(types.filter(([option]) => option));
  const { positionals, ...parsed } = parseArgs({ args, options, allowPositionals: true });
  const values: Record<string, unknown> = parsed.values;
  const read = labels.map((label) => {
    const [option, kind] = [optionIn(label), kindIn(label)];
    const text = option ? values[option] : positionals.shift();
    if (text === undefined && !label.startsWith('[')) misuse(`${label} is missing`);
    const rule = kinds[kind];
    const value = typeof text === 'string' && rule ? rule.read(text) : text;
    // The text is not repeated: it may be a URL with a password.
    if (value === undefined && text !== undefined)
      misuse(`${option ? `--${option}` : `<${kind}>`} must be ${rule?.must}.`);
    return [option ?? kind.replace('|-', ''), value];
  });
  if (positionals.length > 0) misuse(`Unknown argument '${positionals[0]}'`);
  return Object.fromEntries(read) as Values;
}
