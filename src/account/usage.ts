/** What the account pages show of the use of a key: a chart of its requests a day, drawn here, and the same figures as text. */
import { dateText, daysUntilSunset, sunset } from '../core/deprecation.ts';
import { type DayOfUse, dateOf, dayOf, lastErrorOf, type Outcome, outcomes, requestsOf } from '../core/usage.ts';

/** Days of the chart, with the current one. */
export const shownDays = 30;

/** The statuses of an outcome. The class names its color in account.css. */
const labels: Readonly<Record<Outcome, string>> = {
  succeeded: '2xx',
  clientErrors: '4xx',
  rateLimited: '429',
  serverErrors: '5xx',
};

/** Units of the chart: the width of a day, and the height of the busiest one. Bars are strokes, whose width is in account.css. */
const dayWidth = 8;
const barHeight = 40;

/** Shorter parts of a bar could not be seen. One unit of it is the gap to the next part. */
const minPart = 3;

export const chartSize = { width: shownDays * dayWidth, height: barHeight + outcomes.length * minPart };

/** Numbers with separators of thousands. */
export const figure = new Intl.NumberFormat('en-GB').format;

const sunsetText = dateText(sunset);

/** The path of each outcome. The parts of a bar stand on each other, 2xx at the bottom. */
function pathsOf(days: DayOfUse[], first: number, most: number): Record<Outcome, string> {
  const paths = { succeeded: '', clientErrors: '', rateLimited: '', serverErrors: '' };
  for (const day of days) {
    const x = (dayOf(Date.parse(day.day)) - first + 0.5) * dayWidth;
    let y = chartSize.height;
    for (const outcome of outcomes) {
      if (day[outcome] === 0) continue;
      const height = Math.max(minPart, Math.round((day[outcome] / most) * barHeight));
      y -= height;
      paths[outcome] += `M${x} ${y}v${height - 1}`;
    }
  }
  return paths;
}

const sumOf = (days: DayOfUse[], count: (day: DayOfUse) => number) => days.reduce((sum, day) => sum + count(day), 0);

/** `days`: in order, as the store lists them. */
export function usageOf(days: DayOfUse[], now: Date, removed: boolean) {
  const today = dayOf(now.getTime());
  const first = today - shownDays + 1;
  // The clock of another server may be ahead.
  const shown = days.filter(({ day }) => day >= dateOf(first) && day <= dateOf(today));
  const busiest = shown.reduce<DayOfUse | undefined>(
    (most, day) => (most && requestsOf(most) >= requestsOf(day) ? most : day),
    undefined,
  );
  const most = busiest ? requestsOf(busiest) : 0;
  const paths = pathsOf(shown, first, most);
  return {
    from: dateOf(first),
    to: dateOf(today),
    requests: figure(sumOf(shown, requestsOf)),
    busiest: most === 0 || !busiest ? undefined : { day: busiest.day, requests: figure(most) },
    series: outcomes.map((name) => ({
      name,
      label: labels[name],
      count: figure(sumOf(shown, (day) => day[name])),
      path: paths[name],
    })),
    lastError: lastErrorOf(shown),
    deprecated: deprecatedCallsOf(shown, now, removed),
    newestFirst: shown.toReversed(),
  };
}

const leftText = (days: number) => (days === 1 ? '1 day is left' : `${figure(days)} days are left`);

/** Undefined if there was none. */
function deprecatedCallsOf(days: DayOfUse[], now: Date, removed: boolean) {
  const last = days.findLast(({ deprecatedCalls }) => deprecatedCalls > 0);
  if (!last) return undefined;
  const daysLeft = daysUntilSunset(now);
  return {
    calls: figure(sumOf(days, ({ deprecatedCalls }) => deprecatedCalls)),
    lastDay: last.day,
    sunset: sunsetText,
    removed,
    left: daysLeft > 0 ? leftText(daysLeft) : undefined,
  };
}
