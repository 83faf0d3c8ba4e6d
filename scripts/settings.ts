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

const rows = entries.map(([name, { description, default: value }]) => {
  return `| \`${name}\` | ${value === undefined ? '' : `\`${value}\``} | ${description} |`;
});

export const settingsPage = `# Settings

\`npm run generate\` writes this page from [src/config.ts](../src/config.ts).

The server reads its settings from the environment and from a file \`.env\` in the working directory. [.env.example](../.env.example) also has the allowed
values. The environment overrides \`.env\`. An empty value counts as unset, and still overrides \`.env\`. Unknown names are ignored; for one in \`.env\` the
log has a warning.

| setting | default | meaning |
|---|---|---|
${rows.join('\n')}
`;
