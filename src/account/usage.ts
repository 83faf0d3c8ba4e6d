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

const size = { width: shownDays * dayWidth, height: barHeight + outcomes.length * minPart };

/** Numbers with separators of thousands. */
const figure = new Intl.NumberFormat('en-GB').format;

const sumOf = (days: DayOfUse[], count: (day: DayOfUse) => number) =>
  figure(days.reduce((sum, day) => sum + count(day), 0));

/** `days`: in order, as the store lists them. */
export function usageOf(days: DayOfUse[], now: Date, removed: boolean) {
  const today = dayOf(now.getTime());
  const first = today - shownDays + 1;
  // The clock of another server may be ahead.
  const shown = days.filter(({ day }) => day >= dateOf(first) && day <= dateOf(today));
  const most = Math.max(0, ...shown.map(requestsOf));
  const series = outcomes.map((name) => ({
    name,
    label: labels[name],
    path: '',
    count: sumOf(shown, (day) => day[name]),
  }));
  // The parts of a bar stand on each other, 2xx at the bottom.
  for (const day of shown) {
    const x = (dayOf(Date.parse(day.day)) - first + 0.5) * dayWidth;
    let y = size.height;
    for (const part of series) {
      const requests = day[part.name];
      if (requests === 0) continue;
      const height = Math.max(minPart, Math.round((requests / most) * barHeight));
      y -= height;
      part.path += `M${x} ${y}v${height - 1}`;
    }
  }
  return {
    size,
    from: dateOf(first),
    to: dateOf(today),
    requests: sumOf(shown, requestsOf),
    /** Undefined if there was no request. */
    busiest: most === 0 ? undefined : shown.find((day) => requestsOf(day) === most)?.day,
    most: figure(most),
    series,
    lastError: lastErrorOf(shown),
    deprecated: deprecatedCallsOf(shown, now, removed),
    newestFirst: shown.toReversed().map((day) => ({
      ...day,
      figures: [requestsOf(day), ...outcomes.map((name) => day[name]), day.deprecatedCalls].map((count) =>
        figure(count),
      ),
    })),
  };
}

/** Undefined if there was none. */
function deprecatedCallsOf(days: DayOfUse[], now: Date, removed: boolean) {
  const last = days.findLast(({ deprecatedCalls }) => deprecatedCalls > 0);
  const left = daysUntilSunset(now);
  return (
    last && {
      calls: sumOf(days, ({ deprecatedCalls }) => deprecatedCalls),
      lastDay: last.day,
      sunset: dateText(sunset),
      removed,
      left: left > 0 && (left === 1 ? '1 day is left' : `${figure(left)} days are left`),
    }
  );
}
