/** What the page of a key shows of its use: a chart of its requests a day, drawn here, and the same figures as a table. */
import { dateText, sunset } from '../core/deprecation.ts';
import { type DayOfUse, dateOf, dayOf, type Outcome, outcomes, requestsOf } from '../core/usage.ts';

/** Days of the chart, with the current one. */
export const shownDays = 30;

/** The statuses of an outcome. The class names its color in account.css. */
const labels: Readonly<Record<Outcome, string>> = {
  succeeded: '2xx',
  clientErrors: '4xx',
  rateLimited: '429',
  serverErrors: '5xx',
};

/**
 * The chart of key.eta in its units: the width of a day, the lower end of the bars, the height of the busiest day, of the smallest part that can be seen, and of
 * the gap above a part. Smallest parts can make a bar higher. Bars are strokes, whose width is in account.css.
 */
const [dayWidth, bottom, barHeight, minPart, gap] = [8, 172, 160, 3, 1];

/** Numbers with separators of thousands. */
export const figure = new Intl.NumberFormat('en-GB').format;
const percent = new Intl.NumberFormat('en-GB', { style: 'percent', maximumFractionDigits: 1 }).format;

/** `days`: in order, as the store lists them. */
export function usageOf(days: DayOfUse[], now: Date, removed: boolean) {
  const today = dayOf(now.getTime());
  const first = today - shownDays + 1;
  // The clock of another server may be ahead.
  const shown = days.filter(({ day }) => day >= dateOf(first) && day <= dateOf(today));
  const sum = (count: (day: DayOfUse) => number) => shown.reduce((all, day) => all + count(day), 0);
  const most = Math.max(0, ...shown.map(requestsOf));
  const requests = sum(requestsOf);
  const series = outcomes.map((name) => {
    const count = sum((day) => day[name]);
    return { name, label: labels[name], path: '', count: figure(count) };
  });
  const last = shown.findLast(({ deprecatedCalls }) => deprecatedCalls > 0);
  const rows = shown.map((day) => {
    const x = (dayOf(Date.parse(day.day)) - first + 0.5) * dayWidth;
    // The parts of a bar stand on each other, 2xx at the bottom.
    let y = bottom;
    for (const part of series) {
      if (day[part.name] === 0) continue;
      const height = Math.max(minPart, Math.round((day[part.name] / most) * barHeight));
      y -= height;
      part.path += `M${x} ${y}v${height - gap}`;
    }
    const figures = [requestsOf(day), ...outcomes.map((name) => day[name]), day.deprecatedCalls];
    return { ...day, figures: figures.map((count) => figure(count)) };
  });
  return {
    from: dateOf(first),
    to: dateOf(today),
    requests: figure(requests),
    /** Undefined if there was no request. */
    busiest: shown.find((day) => requestsOf(day) === most)?.day,
    most: figure(most),
    series,
    /** Of errors. */
    share: percent(1 - sum(({ succeeded }) => succeeded) / requests),
    rows,
    /** Undefined if there was none. */
    deprecated: last && {
      calls: figure(sum(({ deprecatedCalls }) => deprecatedCalls)),
      lastDay: last.day,
      sunset: dateText(sunset),
      removed,
    },
  };
}
