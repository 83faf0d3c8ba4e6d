/** Times in words and in UTC, as people read them. */
import { dayMs, hourMs, minuteMs } from '../core/limits.ts';

/** A time in UTC, to the minute. */
export const timeOf = (date: Date) => `${date.toISOString().slice(0, 16).replace('T', ' ')} UTC`;

const relative = new Intl.RelativeTimeFormat('en');
/** A unit, its length, and from which time on it is used: 90 days are not "3 months". */
const units = [
  ['year', 365 * dayMs, 730 * dayMs],
  ['month', 30.4 * dayMs, 100 * dayMs],
  ['day', dayMs, dayMs],
  ['hour', hourMs, hourMs],
  ['minute', minuteMs, minuteMs],
] as const;

/** Such as "in 90 days" and, for a negative time, "3 days ago". */
export function inWords(givenMs: number): string {
  // 59 minutes and 59 seconds are an hour.
  const ms = minuteMs * Math.round(givenMs / minuteMs);
  const [unit, unitMs] = units.find(([, , fromMs]) => Math.abs(ms) >= fromMs) ?? [];
  return unit ? relative.format(Math.round(ms / unitMs), unit) : 'now';
}

/** A time in words, as HTML. The exact time is shown to the mouse, and read by screen readers. */
export function relativeTime(date: Date, now: Date): string {
  const exact = timeOf(date);
  const words = inWords(date.getTime() - now.getTime());
  return `<time datetime="${date.toISOString()}" title="${exact}">${words}<span class="unseen"> (${exact})</span></time>`;
}
