/** Describes the settings of src/config.ts, for .env.example and docs/settings.md. */
import { settings } from '../src/config.ts';

const entries = Object.entries(settings.properties);

/** Lines of at most 100 characters that start with "# ". */
const comment = (text: string) => text.replaceAll(/(.{1,98})(?: |$)/g, '# $1\n');

/** The text of .env.example: every setting, commented out. */
export function exampleFile(): string {
  const parts = entries.map(([name, { description = '', title, examples = [], default: value = '' }]) => {
    const lines = [
      description,
      `Allowed: ${title}.`,
      ...examples.map((example: string | number) => `Example: ${example}`),
    ];
    return `${lines.map(comment).join('')}# ${name}=${value}\n`;
  });
  return parts.join('\n');
}

/** The rows of the table in docs/settings.md. */
export const settingRows = entries
  .map(([name, { description, default: value }]) => {
    return `| \`${name}\` | ${value === undefined ? '' : `\`${value}\``} | ${description} |`;
  })
  .join('\n');
