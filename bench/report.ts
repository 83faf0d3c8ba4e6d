/** Reports the results of a run, as a table for the terminal and as an SVG chart. */
export interface Finding {
  name: string;
  title: string;
  /** The ratio that the animal store should reach. */
  goal: number;
  /** Requests per second of each round, by server in the order of measurement: the baseline first, the animal store last. */
  rounds: Record<string, number[]>;
  failures: number;
}

export function median(values: number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1
    ? (sorted[middle] as number)
    : ((sorted[middle - 1] as number) + (sorted[middle] as number)) / 2;
}

const baselineOf = ({ rounds }: Finding) => Object.entries(rounds)[0] as [string, number[]];

/** The median ratio to the baseline for each other server. Each round has its own ratio, of two measurements taken shortly one after the other. */
export function ratios(finding: Finding): Record<string, number> {
  const [baseline, rates] = baselineOf(finding);
  const others = Object.entries(finding.rounds).filter(([name]) => name !== baseline);
  return Object.fromEntries(
    others.map(([name, values]) => [name, median(values.map((value, round) => value / (rates[round] as number)))]),
  );
}

const perSecond = (value: number) => Math.round(value).toLocaleString('en');
const times = (value: number) => `${value.toFixed(2)} ×`;

/** Marks a workload that has its own baseline. */
const label = (finding: Finding, names: string[]) =>
  baselineOf(finding)[0] === names[0] ? finding.title : `${finding.title} *`;

function footnotes(findings: Finding[], names: string[]): string[] {
  const baselines = findings.map((finding) => baselineOf(finding)[0]);
  return baselines.filter((name) => name !== names[0]).map((name) => `* against the ${name}`);
}

/** `names`: the servers, the baseline first. */
export function table(findings: Finding[], names: string[]): string {
  const rows = findings.map((finding) => {
    const found = ratios(finding);
    const others = names.slice(1).map((name) => {
      const ratio = found[name];
      return ratio === undefined ? '' : `${perSecond(median(finding.rounds[name] as number[]))}  ${times(ratio)}`;
    });
    const baseline = perSecond(median(baselineOf(finding)[1]));
    return [label(finding, names), baseline, ...others, times(finding.goal), String(finding.failures)];
  });
  const all = [['work', ...names.map((name) => `${name}/s`), 'goal', 'failures'], ...rows];
  const widths = all[0]?.map((_, column) => Math.max(...all.map((cells) => (cells[column] as string).length))) ?? [];
  const line = (cells: string[]) =>
    cells
      .map((cell, column) =>
        column === 0 ? cell.padEnd(widths[column] as number) : cell.padStart(widths[column] as number),
      )
      .join('  ');
  return [...all.map(line), ...footnotes(findings, names)].join('\n');
}

const left = 300;
const full = 460;
/** Bars stop at this ratio; longer ones would leave the chart. */
const longest = 1.12;
const barHeight = 16;
const gap = 18;

/** Draws one bar per workload and server: its length is the ratio, with a mark at the goal and a line at the baseline. `names`: as for the table. */
export function chart(findings: Finding[], names: string[], title: string, caption: string): string {
  const others = names.slice(1);
  /** The animal store is the last server and gets bar0. */
  const colour = (name: string) => `bar${others.length - 1 - others.indexOf(name)}`;
  const legend = others.length === 1 ? [] : others;
  let y = legend.length > 0 ? 80 : 56;
  const lineTop = y - 8;
  const bars = findings.map((finding) => {
    const found = Object.entries(ratios(finding));
    const top = y;
    const height = found.length * barHeight;
    y += height + gap;
    const goal = left + finding.goal * full;
    const rows = found.map(([name, ratio], index) => {
      const end = left + Math.min(ratio, longest) * full;
      const at = top + index * barHeight;
      return `<rect x="${left}" y="${at}" width="${(end - left).toFixed(1)}" height="${barHeight - 2}" class="${colour(name)}"/>
<text x="${(end + 8).toFixed(1)}" y="${at + 12}" class="value">${times(ratio)}</text>`;
    });
    return `<text x="${left - 12}" y="${top + height / 2 + 4}" text-anchor="end">${label(finding, names)}</text>
${rows.join('\n')}
<line x1="${goal}" x2="${goal}" y1="${y - gap - barHeight - 2}" y2="${y - gap}" class="goal"/>`;
  });
  const captions = [...footnotes(findings, names), caption];
  const height = y + captions.length * 18 + 8;
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${left + full + 130} ${height}" role="img" aria-label="${title}" font-family="system-ui, sans-serif" font-size="14">
<style>
svg { background: #fff; color-scheme: light }
text { fill: #24292f }
.bar0 { fill: #2f81f7 }
.bar1 { fill: #8c959f }
.bar2 { fill: #c4cad1 }
.goal { stroke: #bc4c00; stroke-width: 2 }
.one { stroke: #8c959f; stroke-dasharray: 4 4 }
.title { font-size: 17px; font-weight: 600 }
.caption { fill: #57606a; font-size: 12px }
.value { font-size: 12px; font-weight: 600 }
</style>
<text x="20" y="30" class="title">${title}</text>
${legend
  .map(
    (name, index) =>
      `<rect x="${left + index * 150}" y="48" width="12" height="12" class="${colour(name)}"/><text x="${left + 18 + index * 150}" y="59">${name}</text>`,
  )
  .join('\n')}
<line x1="${left + full}" x2="${left + full}" y1="${lineTop}" y2="${y - gap + 8}" class="one"/>
${bars.join('\n')}
${captions.map((text, index) => `<text x="20" y="${y + 14 + index * 18}" class="caption">${text}</text>`).join('\n')}
</svg>
`;
}
