/**
 * Exits 1 when the tests run less than 95 % of the statements, functions and branches of `src`, in their own process or in one that they
 * start. Reads what vitest and c8 collected (Istanbul's JSON), and prints each place that neither ran.
 */
import { readFileSync } from 'node:fs';
import path from 'node:path';

interface Place {
  start: { line: number };
  end: { line: number | null };
}

interface FunctionPlace {
  name: string;
  decl: Place;
  loc: Place;
}

interface FileCoverage {
  statementMap: Record<string, Place>;
  s: Record<string, number>;
  fnMap: Record<string, FunctionPlace>;
  f: Record<string, number>;
  branchMap: Record<string, { loc: Place; locations: Partial<Place>[] }>;
  b: Record<string, number[]>;
}

function collectedIn(folder: string): Record<string, FileCoverage> {
  return JSON.parse(readFileSync(`${folder}/coverage-final.json`, 'utf8'));
}

const inTests = collectedIn('coverage/vitest');
const inProcesses = collectedIn('coverage/report');

/** Whether processes ran every line of the place. */
function linesRan(file: FileCoverage | undefined, { start, end }: Place): boolean {
  if (!file) return false;
  const last = end.line ?? start.line;
  return !Object.entries(file.statementMap).some(
    ([id, place]) => file.s[id] === 0 && place.start.line >= start.line && place.start.line <= last,
  );
}

/** Whether processes ran all functions that begin there. c8 leaves out those without a name, whose lines must do. */
function functionRan(file: FileCoverage | undefined, { decl, loc }: FunctionPlace): boolean {
  const lines = [decl.start.line, loc.start.line];
  const counts = Object.entries(file?.fnMap ?? {})
    .filter(([, known]) => lines.includes(known.loc.start.line))
    .map(([id]) => file?.f[id]);
  return counts.length > 0 ? counts.every((count) => count) : linesRan(file, loc);
}

function* missedIn(name: string, file: FileCoverage): Generator<[line: number, what: string]> {
  const processes = inProcesses[name];
  for (const [id, place] of Object.entries(file.statementMap))
    if (file.s[id] === 0 && !linesRan(processes, place)) yield [place.start.line, 'statement'];
  for (const [id, place] of Object.entries(file.fnMap))
    if (file.f[id] === 0 && !functionRan(processes, place)) yield [place.decl.start.line, `function ${place.name}`];
  for (const [id, { loc, locations }] of Object.entries(file.branchMap))
    for (const [arm, place] of locations.entries())
      if (file.b[id]?.[arm] === 0 && !linesRan(processes, place.start && place.end ? (place as Place) : loc))
        yield [place.start?.line ?? loc.start.line, 'branch'];
}

const floor = 0.95;

let places = 0;
let missed = 0;
for (const [name, file] of Object.entries(inTests)) {
  places += Object.keys(file.s).length + Object.keys(file.f).length + Object.values(file.b).flat().length;
  for (const [line, what] of missedIn(name, file)) {
    console.log(`${path.relative('.', name)}:${line}  ${what} that no test ran`);
    missed++;
  }
}
// Not a number, and below the floor, when nothing was collected.
const covered = 1 - missed / places;
console.log(
  `Coverage: ${(covered * 100).toFixed(2)} % of ${places} statements, functions and branches; at least ${floor * 100} % is required.`,
);
process.exitCode = covered >= floor ? 0 : 1;
