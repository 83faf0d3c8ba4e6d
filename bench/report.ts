/** What a run found: a table for the terminal, an SVG chart and JSON for the record. */
export interface Finding {
  name: string;
  title: string;
  goal: number;
  /** Requests per second of each round, as they were measured in turn. */
  bare: number[];
  store: number[];
  failures: number;
}

function median(values: number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1
    ? (sorted[middle] as number)
    : ((sorted[middle - 1] as number) + (sorted[middle] as number)) / 2;
}

/** The median of the rounds' own ratios: each compares two measurements taken one after the other. */
export function ratio({ bare, store }: Finding): number {
  return median(store.map((value, round) => value / (bare[round] as number)));
}

const perSecond = (value: number) => Math.round(value).toLocaleString('en');

export function table(findings: Finding[], names: [string, string]): string {
  const rows = findings.map((finding) => [
    finding.title,
    perSecond(median(finding.bare)),
    perSecond(median(finding.store)),
    `${ratio(finding).toFixed(2)} ×`,
    `${finding.goal.toFixed(2)} ×`,
    String(finding.failures),
  ]);
  const all = [['work', `${names[0]}/s`, `${names[1]}/s`, 'ratio', 'goal', 'failures'], ...rows];
  const widths = all[0]?.map((_, column) => Math.max(...all.map((cells) => (cells[column] as string).length))) ?? [];
  const line = (cells: string[]) =>
    cells
      .map((cell, column) =>
        column === 0 ? cell.padEnd(widths[column] as number) : cell.padStart(widths[column] as number),
      )
      .join('  ');
  return all.map(line).join('\n');
}

const left = 270;
const full = 460;
const rowHeight = 44;

/** A bar per workload, as long as its ratio, with a mark at its goal and a line at the yardstick. */
export function chart(findings: Finding[], title: string, caption: string): string {
  const height = 70 + findings.length * rowHeight + 40;
  const bars = findings.map((finding, index) => {
    const share = ratio(finding);
    const y = 60 + index * rowHeight;
    const goal = left + finding.goal * full;
    return `<text x="${left - 12}" y="${y + 17}" text-anchor="end">${finding.title}</text>
<rect x="${left}" y="${y}" width="${(share * full).toFixed(1)}" height="24" rx="3" class="bar"/>
<line x1="${goal}" x2="${goal}" y1="${y - 4}" y2="${y + 28}" class="goal"/>
<text x="${(left + share * full + 8).toFixed(1)}" y="${y + 17}" class="value">${share.toFixed(2)} ×</text>`;
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${left + full + 130} ${height}" role="img" aria-label="${title}" font-family="system-ui, sans-serif" font-size="14">
<style>
svg { background: #fff; color-scheme: light }
text { fill: #24292f }
.bar { fill: #2f81f7 }
.goal { stroke: #bc4c00; stroke-width: 2 }
.one { stroke: #8c959f; stroke-dasharray: 4 4 }
.title { font-size: 17px; font-weight: 600 }
.caption { fill: #57606a; font-size: 12px }
.value { font-weight: 600 }
</style>
<text x="20" y="30" class="title">${title}</text>
<line x1="${left + full}" x2="${left + full}" y1="46" y2="${height - 40}" class="one"/>
${bars.join('\n')}
<text x="20" y="${height - 14}" class="caption">${caption}</text>
</svg>
`;
}
