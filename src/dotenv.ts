/** Reads .env. The values are those of Node's parseEnv; what it would ignore or cut without a word is refused. */
import { parseEnv } from 'node:util';
import { ConfigError } from './config.ts';

/** A value of .env, and the number of its line, from 1. */
export interface Entry {
  value: string;
  line: number;
}

const entry = /^\s*(?:export\s+)?([A-Za-z_][\w.-]*)\s*=\s*(.*)$/;

/** Nothing but white space and a comment. */
const empty = /^\s*(#|$)/;

/** A comment begins at the first #, whatever is before it. */
const cut = /^[^#]*[^\s#]#/;

function refuse(line: number, sentence: string): never {
  throw new ConfigError(`.env line ${line} ${sentence}.`);
}

/** Throws ConfigError if a line is not what it seems to be. */
export function readEntries(text: string): Map<string, Entry> {
  const values = parseEnv(text);
  const lines = text.split(/\r?\n/);
  const entries = new Map<string, Entry>();
  for (let at = 0; at < lines.length; at++) {
    const [first = '', line] = [lines[at], at + 1];
    if (empty.test(first)) continue;
    const [, name = '', value = ''] = entry.exec(first) ?? refuse(line, 'is neither NAME=value nor a comment');
    const before = entries.get(name);
    if (before) refuse(line, `sets ${name} again, after line ${before.line}: remove one of them`);
    const read = values[name];
    // parseEnv takes some white space for a part of the name, or the next line for the value.
    if (read === undefined || (value === '' && read.trim() !== ''))
      refuse(
        line,
        `is not read as NAME=value: write ${name} at its beginning, with nothing but the value behind the =`,
      );
    entries.set(name, { value: read, line });
    const [quote] = /^["'`]/.exec(value) ?? [];
    if (quote === undefined) {
      if (cut.test(first))
        refuse(line, `has a # in the value of ${name}, which would begin a comment: put the value in quotes`);
      continue;
    }
    let rest = value.slice(1);
    while (!rest.includes(quote) && at + 1 < lines.length) rest = lines[++at] as string;
    if (!rest.includes(quote)) refuse(line, `begins the value of ${name} with a quote that does not close`);
    if (!empty.test(rest.slice(rest.indexOf(quote) + 1))) refuse(at + 1, `has text behind the quotes of ${name}`);
  }
  return entries;
}
