/** The dates of GET /pets/{petId}, the deprecated operation. */
import { dayMs } from './limits.ts';

export const deprecatedSince = new Date('2026-11-20T00:00:00Z');
export const sunset = new Date('2030-12-05T00:00:00Z');

/** A date in UTC, such as "5 December 2030". */
export const dateText = (date: Date) =>
  date.toLocaleDateString('en-GB', { day: 'numeric', month: 'long', year: 'numeric', timeZone: 'UTC' });

/** Whether the operation has been removed, if its removal is enforced. */
export const isRemoved = (now: Date, enforced: boolean) => enforced && now.getTime() >= sunset.getTime();

const warningDays = 90;

/** Whole days until the removal, rounded up; 0 or less once it has happened. */
const daysUntilSunset = (now: Date) => Math.ceil((sunset.getTime() - now.getTime()) / dayMs);

/** The log message from 90 days before the removal on; undefined before that. */
export function sunsetWarning(now: Date): string | undefined {
  const days = daysUntilSunset(now);
  if (days > warningDays) return undefined;
  const date = sunset.toISOString().slice(0, 10);
  return days > 0
    ? `GET /pets/{petId} will be removed in ${days} ${days === 1 ? 'day' : 'days'}, on ${date}; it returns 410 from then on.`
    : `GET /pets/{petId} was removed on ${date}.`;
}
