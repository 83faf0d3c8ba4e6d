/** The commands export and import. An import checks every line, then adds each animal as a POST with an Idempotency-Key does. */
import { createHash, randomUUID } from 'node:crypto';
import fs from 'node:fs';
import { tmpdir } from 'node:os';
import { pipeline } from 'node:stream/promises';
import { type ApiError, messageOf } from '../core/errors.ts';
import { readJson } from '../core/int64.ts';
import { limits } from '../core/limits.ts';
import { maxPage, NewPet } from '../core/pets.ts';
import { checkOf, isObject, joinFaults } from '../core/schema.ts';
import { printable } from '../server/environment.ts';
import { isOther } from '../store/files.ts';
import { replaceFile } from '../store/sqlite/replace.ts';
import type { Store } from '../store/store.ts';
import { type Cli, type Commands, counted, refuse } from './command.ts';
import { targetOf } from './maintenance.ts';

export const transferCommands: Commands = {
  import: {
    about: 'add the animals of a file; repeat it if it is interrupted',
    inputs: { '<file|->': 'JSON lines, as export writes them; - is standard input' },
    async run(cli, { file: name }) {
      const file = await openSource(cli, name);
      try {
        const before = fs.fstatSync(file);
        const hash = checkLines(file);
        await cli.withStore((store) => importLines(cli, store, { name, file, before, hash }), true);
      } finally {
        fs.closeSync(file);
      }
    },
  },

  export: {
    about: 'write all animals as JSON lines, in ascending order of id',
    inputs: {
      '[<file|->]': 'the file to write (default: - for standard output)',
      '[--status <status>]': 'only animals with this status',
      '[--force]': 'replace the file if it exists',
    },
    async run(cli, { file = '-', status, force }) {
      const count = await cli.withStore(async ({ pets }) => {
        let written = 0;
        const shown = file === '-' && cli.io.stdout.isTTY ? printable : String;
        async function* lines(): AsyncGenerator<string> {
          for (let after: bigint | undefined = 0n; after !== undefined; ) {
            const page = await pets.list({ limit: maxPage, status, after });
            after = page.next;
            written += page.pets.length;
            yield shown(page.pets.map((pet) => `${pet}\n`).join(''));
          }
        }
        if (file === '-') await pipeline(lines, cli.io.stdout, { end: false });
        else {
          await replaceFile(targetOf(cli, file, force), 0o666, cli.note, async (_, descriptor) => {
            // Not a stream, which would close the descriptor on an error.
            for await (const text of lines()) fs.writeFileSync(descriptor, text);
          });
        }
        return written;
      });
      cli.note(`Exported ${counted('animal', count)}.`);
    },
  },
};

/** Pipes of the shell: `<(…)`. Others may have no writer. */
const pipes = /^\/(dev|proc)\//;

/** Opens a regular file itself, and a temporary copy of a pipe, which can be read only once. Returns a descriptor. */
async function openSource({ io }: Cli, name: string): Promise<number> {
  const isPipe = pipes.test(name) && fs.statSync(name).isFIFO();
  if (name !== '-' && !isPipe) {
    if (isOther(name)) refuse(`${name} is not a file.`);
    return fs.openSync(name, 'r');
  }
  const copy = `${tmpdir()}/animal-store-${randomUUID()}`;
  const file = fs.openSync(copy, 'wx+', 0o600);
  // Without a name, the copy disappears with the process, however that ends.
  fs.unlinkSync(copy);
  // Node would read a folder as if it were empty.
  if (!isPipe && io.stdin === process.stdin && fs.fstatSync(0).isDirectory()) refuse('Standard input is a folder.');
  const input = isPipe ? fs.createReadStream(name) : io.stdin;
  await pipeline(input, fs.createWriteStream('', { fd: file, autoClose: false }));
  return file;
}

const chunkBytes = 256 * 1024;

const byteOrderMark = Buffer.from('\uFEFF');

/**
 * The lines of a file of any size, with their numbers from 1. Only a line feed ends a line: JSON text may contain all other line breaks. A line
 * that is longer than a body may be is cut after that length. `onChunk` is called with each part that is read.
 */
function* readLines(file: number, onChunk: (chunk: Buffer) => void) {
  const buffer = Buffer.allocUnsafe(chunkBytes);
  let begun = Buffer.alloc(0);
  let [number, at] = [0, 0];
  for (let length = -1; length !== 0; at += length) {
    length = fs.readSync(file, buffer, 0, chunkBytes, at);
    const chunk = buffer.subarray(0, length);
    onChunk(chunk);
    // Some editors begin a file with a byte order mark.
    let start = at === 0 && chunk.subarray(0, 3).equals(byteOrderMark) ? 3 : 0;
    for (let end = chunk.indexOf('\n'); end !== -1; end = chunk.indexOf('\n', start)) {
      yield [++number, Buffer.concat([begun, chunk.subarray(start, end)])] as const;
      begun = Buffer.alloc(0);
      start = end + 1;
    }
    if (begun.length <= limits.bodyBytes) begun = Buffer.concat([begun, chunk.subarray(start)]);
  }
  if (begun.length > 0) yield [number + 1, begun] as const;
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

const maxNamed = 20;

/** Checks every line. Returns a hash of the file. Throws CommandError, which names the bad lines. */
function checkLines(file: number): string {
  const hash = createHash('sha256');
  const sentences: string[] = [];
  let [lines, bad] = [0, 0];
  for (const [number, text] of readLines(file, (chunk) => void hash.update(chunk))) {
    lines = number;
    try {
      readPet(text);
    } catch (error) {
      if (!(error instanceof SyntaxError)) throw error;
      bad += 1;
      if (bad <= maxNamed) sentences.push(`line ${number}: ${error.message}.`);
    }
  }
  const summary = `${bad} of ${counted('line', lines)} ${bad === 1 ? 'is' : 'are'} bad, so nothing was imported.`;
  if (bad > 0) refuse([...sentences, summary].join('\n'));
  // 128 bits of SHA-256: the store keeps them for each line.
  return hash.digest('base64url').slice(0, 22);
}

/** Additions in flight: two batches of PostgreSQL, or one transaction of SQLite. */
const maxUnanswered = 1000;

/** Finds a line that an earlier import of the same content has added by its key. Throws CommandError if it ends before the last line. */
async function importLines(
  cli: Cli,
  { pets }: Store,
  source: { name: string; file: number; before: fs.Stats; hash: string },
): Promise<void> {
  const { name, file, before, hash } = source;
  let [added, present] = [0, 0];
  let ended: string | undefined;
  const unanswered: Promise<void>[] = [];

  async function add(pet: NewPet, line: number): Promise<void> {
    try {
      // No account has this id.
      const { outcome } = await pets.add(pet, { accountId: 0, key: `${hash} ${line}` });
      if (outcome === 'added') added += 1;
      // Also `reused`: the animal was changed by SQL.
      else present += 1;
    } catch (error) {
      ended ??= `The store cannot be written (${messageOf((error as ApiError).cause ?? error)}): at least`;
    }
  }

  function onChunk(): void {
    const { size, mtimeMs } = fs.fstatSync(file);
    if (size !== before.size || mtimeMs !== before.mtimeMs) ended ??= `${name} changed during the import:`;
  }

  for (const [number, text] of readLines(file, onChunk)) {
    if (ended !== undefined) break;
    const pet = readPet(text);
    if (pet) unanswered.push(add(pet, number));
    if (unanswered.length === maxUnanswered) await Promise.all(unanswered.splice(0, maxUnanswered / 2));
  }
  await Promise.all(unanswered);
  const already = present > 0 ? `; already there: ${present}` : '';
  // The key of each line is kept for 24 hours, and a repeated import may reach a line later than the first one did.
  if (ended !== undefined)
    refuse(
      `${ended} ${counted('animal', added)} added${already}. To continue, repeat the import with the same content within 23 hours of its first start. Other content adds all its animals.`,
    );
  cli.print(`Imported ${counted('animal', added)}${already}.`);
}
