/** The command that adds animals from a file: it checks every line, then adds each animal as a POST with an Idempotency-Key does. */
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { Command } from 'commander';
import { ApiError, messageOf } from '../core/errors.ts';
import { readJson } from '../core/int64.ts';
import { limits } from '../core/limits.ts';
import { NewPet } from '../core/pets.ts';
import { checkOf, isObject, joinFaults } from '../core/schema.ts';
import { sameInterruptMs } from '../server/start.ts';
import type { Store } from '../store/store.ts';
import { CommandError, type Context } from './context.ts';
import { animals, counted, type Progress } from './output.ts';

export function importCommand(program: Command, context: Context): void {
  program
    .command('import')
    .description('check every line of a file, then add its animals; repeat an interrupted import to continue it')
    .argument('<file>', 'JSON lines, as export writes them, without regard to id; - is standard input')
    .action(async (name: string) => {
      const file = await openSource(name, name === '-' ? context.stdin() : context.resolve(name));
      try {
        const source = { name, file, bytes: fs.fstatSync(file).size, version: versionOf(file) };
        const hash = await checkLines(context, source);
        await context.withStore((store) => importLines(context, store, source, hash), { create: true });
      } finally {
        fs.closeSync(file);
      }
    });
}

interface Source {
  name: string;
  file: number;
  bytes: number;
  version: string;
}

/** Opens a regular file itself, and a temporary copy of anything that can be read only once, such as a pipe. Returns a descriptor. */
async function openSource(name: string, source: string | Readable): Promise<number> {
  const stats = typeof source === 'string' ? fs.statSync(source) : undefined;
  if (stats?.isDirectory()) throw new CommandError(`${name} is a folder.`);
  if (typeof source === 'string' && stats?.isFile()) return fs.openSync(source, 'r');
  const folder = fs.mkdtempSync(path.join(tmpdir(), 'animal-store-'));
  const file = fs.openSync(path.join(folder, 'import'), 'wx+', 0o600);
  // Without a name, the copy disappears with the process, however that ends.
  fs.rmSync(folder, { recursive: true });
  const input = typeof source === 'string' ? fs.createReadStream(source) : source;
  await pipeline(input, fs.createWriteStream('', { fd: file, autoClose: false }));
  return file;
}

/** Changes whenever the file is written to. */
function versionOf(file: number): string {
  const { size, mtimeNs } = fs.fstatSync(file, { bigint: true });
  return `${size} ${mtimeNs}`;
}

interface Line {
  /** From 1. */
  number: number;
  text: Buffer;
  /** Bytes of the file up to the end of this line. */
  end: number;
}

const chunkBytes = 256 * 1024;

/**
 * The lines of a file of any size. Only a line feed ends a line: JSON text may contain all other line breaks. A line that is longer than
 * a body may be is cut after that length.
 */
function* readLines(file: number, onChunk: (chunk: Buffer) => void): Generator<Line> {
  const buffer = Buffer.allocUnsafe(chunkBytes);
  let begun = Buffer.alloc(0);
  let [number, position] = [0, 0];
  for (let length = -1; length !== 0; position += length) {
    length = fs.readSync(file, buffer, 0, chunkBytes, position);
    const chunk = buffer.subarray(0, length);
    onChunk(chunk);
    let start = 0;
    for (let end = chunk.indexOf('\n'); end !== -1; end = chunk.indexOf('\n', start)) {
      number += 1;
      yield { number, text: Buffer.concat([begun, chunk.subarray(start, end)]), end: position + end };
      begun = Buffer.alloc(0);
      start = end + 1;
    }
    if (begun.length <= limits.bodyBytes) begun = Buffer.concat([begun, chunk.subarray(start)]);
  }
  if (begun.length > 0) yield { number: number + 1, text: begun, end: position };
}

const check = checkOf(NewPet);

/** The animal of a line; undefined if the line is empty. Throws SyntaxError, whose message names the faults. */
function readPet(text: Buffer): NewPet | undefined {
  if (text.length > limits.bodyBytes) throw new SyntaxError(`longer than ${limits.bodyBytes} bytes`);
  if (text.toString().trim() === '') return undefined;
  const values = readJson(text);
  if (!isObject(values)) throw new SyntaxError('must be a JSON object');
  // An export has the ids of another store.
  delete values.id;
  const faults = check(values);
  if (faults.length > 0) throw new SyntaxError(joinFaults(faults));
  return values as unknown as NewPet;
}

/** Undefined if the line is good. */
function faultOf(text: Buffer): string | undefined {
  try {
    readPet(text);
    return undefined;
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    // A message may quote the line, which may contain control characters that a terminal would obey.
    return error.message.replace(/\p{C}/gu, '�');
  }
}

const maxNamed = 20;

/** Checks every line. Returns a hash of the file. Throws CommandError, which names the bad lines. */
function checkLines({ withProgress }: Context, { file, bytes }: Source): Promise<string> {
  return withProgress('Checking', 'lines', async ({ show }) => {
    const hash = createHash('sha256');
    const sentences: string[] = [];
    let [lines, bad] = [0, 0];
    for (const { number, text, end } of readLines(file, (chunk) => hash.update(chunk))) {
      const fault = faultOf(text);
      if (fault !== undefined) bad += 1;
      if (fault !== undefined && bad <= maxNamed) sentences.push(`line ${number}: ${fault}.`);
      lines = number;
      show(end, bytes, number);
    }
    if (bad > maxNamed) sentences.push(`And ${counted('more line', bad - maxNamed)}.`);
    const summary = `${bad} of ${counted('line', lines)} ${bad === 1 ? 'is' : 'are'} bad, so nothing was imported.`;
    if (bad > 0) throw new CommandError([...sentences, summary].join('\n'));
    // 128 bits of SHA-256: the store keeps them for each line.
    return hash.digest('base64url').slice(0, 22);
  });
}

async function importLines({ note, print, withProgress }: Context, store: Store, source: Source, hash: string) {
  const lastId = await store.pets.lastId();
  if (lastId > 0) note(`The store has animals already, up to id ${lastId}.`);
  const { added, present } = await withProgress('Importing', 'lines', ({ show }) =>
    addLines(store, source, hash, show, note),
  );
  print(`Imported ${animals(added)}${present > 0 ? `; already there: ${present}` : ''}.`);
  if (added === 0 && present > 0) note('To add the same animals once more, add an empty line to the file.');
}

/** Additions that may be unanswered: two batches of PostgreSQL, and a transaction of SQLite. */
const maxUnanswered = 1000;

/** A line that an earlier import of the same content has added is found by its key. Throws CommandError if it ends before the last line. */
async function addLines(
  store: Store,
  { name, file, bytes, version }: Source,
  hash: string,
  show: Progress['show'],
  note: Context['note'],
): Promise<{ added: number; present: number }> {
  let [added, present] = [0, 0];
  let ended: string | undefined;
  const unanswered: Promise<void>[] = [];

  async function add(pet: NewPet, line: number): Promise<void> {
    try {
      // No account has this id.
      const { outcome } = await store.pets.add(pet, { accountId: 0, key: `${hash} ${line}` });
      if (outcome === 'added') added += 1;
      // Also `reused`: the animal was changed by SQL.
      else present += 1;
    } catch (error) {
      ended ??= `The store cannot be written (${messageOf(error instanceof ApiError ? error.cause : error)}): at least`;
    }
  }

  function endIfChanged(): void {
    if (versionOf(file) !== version) ended ??= `${name} changed during the import:`;
  }

  const ignoreSignals = watchSignals(() => {
    ended ??= 'Interrupted:';
    note('Stopping after what has begun; press Ctrl-C again to end at once.');
  });
  try {
    for (const { number, text, end } of readLines(file, endIfChanged)) {
      if (ended !== undefined) break;
      const pet = readPet(text);
      if (pet) unanswered.push(add(pet, number));
      if (unanswered.length === maxUnanswered) await Promise.all(unanswered.splice(0, maxUnanswered / 2));
      show(end, bytes, number);
    }
    await Promise.all(unanswered);
  } finally {
    ignoreSignals();
  }
  if (ended === undefined) return { added, present };
  const progress = `${animals(added)} added${present > 0 ? `, ${present} there already` : ''}`;
  throw new CommandError(`${ended} ${progress}. Repeat the import with the same content within 24 hours to continue.`);
}

const signals = ['SIGINT', 'SIGTERM'] as const;

/** Calls `onFirst` at the first SIGINT or SIGTERM; a second one ends the process. Returns a function that ends this. */
function watchSignals(onFirst: () => void): () => void {
  let seen = false;

  function ignore(): void {
    for (const signal of signals) process.off(signal, interrupt);
  }

  function interrupt(): void {
    if (seen) return;
    seen = true;
    onFirst();
    setTimeout(ignore, sameInterruptMs).unref();
  }

  for (const signal of signals) process.on(signal, interrupt);
  return ignore;
}
