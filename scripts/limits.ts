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

export const limitsPage = `# Limits

\`npm run generate\` writes this page from [src/core/limits.ts](../src/core/limits.ts).

Each thing that a client can take counts against the *holder*: the account of its API key or of its session; without either, the network of its
address, which is the IPv4 address itself or the /64 of an IPv6 address. An account that was created without an invitation counts as the network that it
was created from. [fairness.md](decisions/fairness.md) says how holders share the server, and who is served first.

Of requests at the store, bodies, look-ups, pipelined requests and unread responses, a holder can have as much as is free: half of the limit if it is
alone, a third if there are two. So something is left for the next one.

Each process counts for itself, unless the holder says *all processes*: those that use the same store.

| what | default | holder | beyond it | setting |
|---|---|---|---|---|
${rows.join('\n')}
`;
