/** The command that shows the requests of an API key by day. */
import type { Command } from 'commander';
import type { ApiKey } from '../core/accounts.ts';
import { type DayOfUse, keptDays, lastErrorOf, requestsOf } from '../core/usage.ts';
import { keyId } from './arguments.ts';
import { type Context, found } from './context.ts';
import { counted } from './output.ts';

export function keyUsageCommand(key: Command, { print, printJson, printTable, withStore }: Context): void {
  key
    .command('usage')
    .description(`show the requests of a key by day (UTC), newest first, for up to ${keptDays} days`)
    .argument('<id>', 'the id that key list shows', keyId)
    .option('--json', 'print JSON')
    .action((id: number, { json }: { json?: boolean }) =>
      withStore(async ({ accounts }) => {
        const shown = found(
          (await accounts.listKeys()).find((one) => one.id === id),
          `There is no key ${id}.`,
        );
        const days = await accounts.listUsage(id, keptDays);
        const { account, name, lastUsedAt } = shown;
        const newestFirst = days.toReversed();
        if (json) return printJson({ id, account, name, lastUsedAt, lastError: lastErrorOf(days), days: newestFirst });
        if (days.length > 0) printTable(newestFirst.map(rowOf), '');
        return print(summaryOf(shown, days));
      }),
    );
}

function rowOf(day: DayOfUse): Record<string, string | number> {
  return {
    day: day.day,
    requests: requestsOf(day),
    '2xx': day.succeeded,
    '4xx': day.clientErrors,
    'rate limited': day.rateLimited,
    '5xx': day.serverErrors,
    deprecated: day.deprecatedCalls,
    'last error': day.lastError ? `${day.lastError.code} at ${day.lastError.at.toISOString()}` : '',
  };
}

function summaryOf({ id, name, account, lastUsedAt }: ApiKey, days: DayOfUse[]): string {
  const requests = days.reduce((sum, day) => sum + requestsOf(day), 0);
  const error = lastErrorOf(days);
  return [
    `Key ${id} (${name}) of account ${account}: ${counted('request', requests)} in ${keptDays} days`,
    lastUsedAt ? `last used ${lastUsedAt.toISOString()}` : 'never used',
    error ? `last error ${error.code} at ${error.at.toISOString()}.` : 'no error.',
  ].join(', ');
}
