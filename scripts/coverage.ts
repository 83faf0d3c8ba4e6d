/**
 * Holds the tests to all of `src`: each line, function and branch is run in the tests' own process, or its line in one of the processes
 * that they start. Reads what vitest and c8 collected (Istanbul's JSON), prints the places that neither saw, and exits 1 where there are any.
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

const files = Object.entries(inTests);
let missed = 0;
for (const [name, file] of files)
  for (const [line, what] of missedIn(name, file)) {
    console.error(`${path.relative('.', name)}:${line}  ${what} that no test ran`);
    missed++;
  }
if (files.length === 0) console.error('Nothing was collected.');
else if (missed === 0) console.log(`Coverage: every line, function and branch of ${files.length} files.`);
process.exitCode = missed > 0 || files.length === 0 ? 1 : 0;
