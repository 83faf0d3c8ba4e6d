/** What the commands print: tables for people, JSON for programs, a key once. */
import type { ApiKey, Secret } from '../accounts.ts';

export function print(text: string): void {
  process.stdout.write(`${text}\n`);
}

export function printJson(value: unknown): void {
  print(JSON.stringify(value, null, 2));
}

/** Rows under their headings, each column as wide as its widest cell; the sentence where there are no rows. */
export function printTable([first, ...others]: Record<string, string | number>[], empty: string): void {
  const table = first
    ? [
        Object.keys(first).map((name) => name.toUpperCase()),
        ...[first, ...others].map((row) => Object.values(row).map(String)),
      ]
    : [[empty]];
  const widths = Object.keys(first ?? { empty }).map((_, column) =>
    Math.max(...table.map((cells) => (cells[column] as string).length)),
  );
  for (const cells of table)
    print(
      cells
        .map((cell, column) => cell.padEnd(widths[column] as number))
        .join('  ')
        .trimEnd(),
    );
}

export function stateOf({ revokedAt, expiresAt }: ApiKey): string {
  if (revokedAt) return 'revoked';
  return expiresAt && expiresAt <= new Date() ? 'expired' : 'active';
}

export function keyRow(key: ApiKey): Record<string, string | number> {
  return {
    id: key.id,
    account: key.account,
    name: key.name,
    key: `${key.hint}…`,
    scopes: key.scopes.join(','),
    state: stateOf(key),
    expires: key.expiresAt?.toISOString() ?? 'never',
    'last used': key.lastUsedAt?.toISOString() ?? 'never',
    'deprecated calls': key.deprecatedCalls,
  };
}

/** The key alone on stdout, so that a script can take it; what belongs to a reader on stderr. */
export function showSecret(secret: Secret, key: ApiKey, json: boolean | undefined): void {
  if (json) printJson({ ...key, key: secret.key });
  else {
    process.stderr.write(`Key ${key.id} of account ${key.account}. It is shown only now:\n`);
    print(secret.key);
  }
}

export function animals(count = 0): string {
  return `${count} ${count === 1 ? 'animal' : 'animals'}`;
}
