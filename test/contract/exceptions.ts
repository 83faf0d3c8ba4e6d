/** The exceptions from other tools' rules, compared with what the tools find. */
import { readFileSync } from 'node:fs';
import { parse } from 'yaml';

interface Place {
  rule: string;
  /** JSON pointers, as URI fragments. `*`: any text without a slash. */
  at: string[];
  because: string;
}

export const exceptions: { spectral: Place[] } = parse(readFileSync(`${import.meta.dirname}/exceptions.yaml`, 'utf8'));

export interface Finding {
  rule: string;
  pointer: string;
}

const patternOf = (place: string) =>
  new RegExp(`^${place.replace(/[$.{}*]/g, (mark) => (mark === '*' ? '[^/]*' : `\\${mark}`))}(/|$)`);

/** Findings without an exception, and exceptions without a finding; none is right. */
export function differences(places: Place[], findings: Finding[]): string[] {
  const left = new Set(places.flatMap(({ rule, at }) => at.map((place) => `${rule} ${place}: no such finding`)));
  const unknown = findings.filter(({ rule, pointer }) => {
    const covering = places
      .filter((place) => place.rule === rule)
      .flatMap(({ at }) => at)
      .filter((place) => patternOf(place).test(pointer));
    for (const place of covering) left.delete(`${rule} ${place}: no such finding`);
    return covering.length === 0;
  });
  return [...unknown.map(({ rule, pointer }) => `${rule} ${pointer}: no exception`), ...left];
}
