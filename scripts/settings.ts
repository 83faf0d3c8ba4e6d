/** Describes the settings, for .env.example and docs/settings.md: src/config.ts has their values, and the table of docs/settings.md what they mean. */
import { readFileSync } from 'node:fs';
import { settings } from '../src/config.ts';

const page = readFileSync(new URL('../docs/settings.md', import.meta.url), 'utf8');
const rows = [...page.matchAll(/^\| `(\w+)` \|[^|]*\| (.+) \|$/gm)];
const meanings = new Map(rows.map(([, name, meaning]) => [name, meaning]));

const entries = Object.entries(settings.properties).map(([name, property]) => {
  const meaning = meanings.get(name);
  if (meaning === undefined) throw new Error(`docs/settings.md must have a row for ${name}.`);
  return { name, meaning, ...property };
});

/** Lines of at most 100 characters that start with "# ". */
const comment = (text: string) => text.replaceAll(/(.{1,98})(?: |$)/g, '# $1\n');

/** The text of .env.example: every setting, commented out. */
export function exampleFile(): string {
  const parts = entries.map(({ name, meaning, title, examples = [], default: value = '' }) => {
    const lines = [meaning, `Allowed: ${title}.`, ...examples.map((example: string | number) => `Example: ${example}`)];
    return `${lines.map(comment).join('')}# ${name}=${value}\n`;
  });
  return parts.join('\n');
}

/** The rows of the table in docs/settings.md. */
export const settingRows = entries
  .map(({ name, meaning, default: value }) => {
    return `| \`${name}\` | ${value === undefined ? '' : `\`${value}\``} | ${meaning} |`;
  })
  .join('\n');
