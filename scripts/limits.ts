/** Describes the table of limits in src/core/limits.ts, for docs/limits.md. */
import { limitTable } from '../src/core/limits.ts';

const units = { ms: [86_400_000, 3_600_000, 60_000, 1000, 1], bytes: [1024 * 1024, 1024, 1] };
const names = { ms: ['d', 'h', 'min', 's', 'ms'], bytes: ['MiB', 'KiB', 'bytes'] };

/** In the largest unit that divides it. */
function amountOf({ value, unit }: { value: number; unit?: string }): string {
  if (unit === undefined) return value.toLocaleString('en');
  if (unit === 'characters') return `${value.toLocaleString('en')} characters`;
  const kind = unit as 'ms' | 'bytes';
  const at = units[kind].findIndex((size) => value % size === 0);
  return `${(value / (units[kind][at] as number)).toLocaleString('en')} ${names[kind][at]}`;
}

const rows = Object.values(limitTable).map((limit) => {
  const setting = 'setting' in limit ? `\`${limit.setting}\`` : '';
  const holder = 'shared' in limit ? `${limit.holder}, all processes` : limit.holder;
  return `| ${limit.what} | ${amountOf(limit)} | ${holder} | ${limit.beyond} | ${setting} |`;
});

/** The rows of the table in docs/limits.md. */
export const limitRows = rows.join('\n');
