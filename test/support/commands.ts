/** Stores for the operator's commands to work on, and what the commands print. */
import { hash } from 'node:crypto';
import fs from 'node:fs';
import Database from 'better-sqlite3';
import { expect } from 'vitest';
import type { NewPet } from '../../src/core/pets.ts';
import { openStore } from '../../src/store/open.ts';
import type { Store } from '../../src/store/store.ts';
import { temporaryFolder } from './app.ts';
import { type CliSurroundings, type Exit, runCli } from './process.ts';
import { addKey } from './store-file.ts';

/** What a command says on stderr that creates the store. */
export const created = 'Created the store ./data/animal-store.db.\n';

/** A time in JSON. */
export const instant = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);

/** The sentences with which a command failed. */
export function commandErrorOf({ code, stdout, stderr }: Exit) {
  expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
  expect(stderr).toMatch(/^(animal-store: [^\n]+\.\n)+$/);
  return stderr.replaceAll('animal-store: ', '').trimEnd();
}

/** An event as the log has it, which has ids and no names. */
const event =
  /^\{"level":30,"time":\d{13},"pid":\d+,"hostname":"[^"]+","event":"(\w+)"(?:,"account":(\d+))?(?:,"key":(\d+))?,"msg":"[a-z ]+"\}$/gm;

/** What a command printed, with names for what differs from run to run, and each event as `event_name account key`. */
const masked = (text: string) =>
  text
    .replace(event, (_all, ...parts) => parts.slice(0, 3).filter(Boolean).join(' '))
    .replace(/ast_(test|live)_[0-9A-Za-z]{36}\b/g, '<$1 key>')
    .replace(/ast_test_[0-9A-Za-z]{4}\b/g, '<hint>')
    .replace(/\/links\/[\w-]{43}\b/g, '/links/<token>')
    .replace(/\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z/g, '<time>')
    .replace(/ {2,}/g, '  ');

/** A command line, split at spaces; its exit code; its stdout; its stderr. In both outputs, `masked` has replaced what differs. */
export type Row = [
  line: string | string[],
  code: 0 | 1 | 2,
  stdout: string,
  stderr?: string,
  env?: CliSurroundings['env'],
];

export const refusal = (sentence: string) => `animal-store: ${sentence}\n`;

/** A command that fails with this sentence, and prints nothing else. */
export const refused = (line: Row[0], sentence: string, ...env: [env?: CliSurroundings['env']]): Row => [
  line,
  1,
  '',
  refusal(sentence),
  ...env,
];

/** Runs the command of each row in turn. */
export async function expectRows(folder: string, rows: Row[], surroundings: CliSurroundings = {}) {
  for (const [line, code, stdout, stderr = '', env] of rows) {
    const args = typeof line === 'string' ? line.split(' ') : line;
    const exit = await runCli(args, { folder, ...surroundings, ...(env && { env }) });
    const shown = { code: exit.code, stdout: masked(exit.stdout), stderr: masked(exit.stderr) };
    expect(shown, args.join(' ')).toEqual({ code, stdout, stderr });
  }
}

/** Uses the store that the default DATABASE_URL names in a folder, and creates it if it is missing. */
export async function useStore<Result>(folder: string, use: (store: Store) => Promise<Result>): Promise<Result> {
  const file = `${folder}/data/animal-store.db`;
  const store = await openStore(`sqlite:${file}`, { now: () => new Date() });
  return use(store).finally(() => store.close());
}

/** Creates a folder to run commands in. It has a store of these animals, or no store without animals. */
export async function commandFolder(...pets: NewPet[]) {
  const folder = temporaryFolder();
  if (pets.length > 0) await useStore(folder, (store) => Promise.all(pets.map((pet) => store.pets.add(pet))));
  return {
    folder,
    /** The store that the default DATABASE_URL names in this folder. */
    store: `${folder}/data/animal-store.db`,
    at: (name: string) => `${folder}/${name}`,
    /** Runs a command here, which must succeed, and returns its stdout. */
    run: async (...args: string[]) => {
      const { code, stdout, stderr } = await runCli(args, { folder });
      expect(code, stderr).toBe(0);
      return stdout;
    },
    /** Runs a command here, which must fail, and returns its sentences. */
    refused: async (...args: string[]) => commandErrorOf(await runCli(args, { folder })),
  };
}

/** A folder whose store has the account `zoo`, with as many keys. */
export async function withZoo(keys = 0) {
  const here = await commandFolder();
  await useStore(here.folder, async ({ accounts }) => {
    await accounts.addAccount('zoo');
    for (let added = 0; added < keys; added++) await addKey(accounts, 'zoo');
  });
  return { ...here, keys: async () => JSON.parse(await here.run('key', 'list', '--json')) };
}

/** Sets a password for `zoo`, as the account pages do. */
export const setPassword = (folder: string) => useStore(folder, ({ people }) => people.setPassword(1, '$argon2id$'));

/** Reads a store on a new connection. */
export function query<Row>(file: string, sql: string): Row[] {
  const database = new Database(file, { readonly: true });
  try {
    return database.prepare(sql).all() as Row[];
  } finally {
    database.close();
  }
}

/** Changes a store, or any database, as another program might. */
export function change(file: string, sql: string) {
  const database = new Database(file).unsafeMode();
  database.exec(sql);
  database.close();
}

/** Path → hash of each file in a folder and its subfolders. */
export function contentsOf(folder: string): Record<string, string> {
  const files = fs.readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  const paths = files.map(({ parentPath, name }) => `${parentPath}/${name}`);
  return Object.fromEntries(paths.map((file) => [file, hash('sha256', fs.readFileSync(file))]));
}

/** Lines for an import: the pets `pet 1` and so on. */
export const jsonLines = (count: number) =>
  Array.from(Array(count), (_, index) => `{"name":"pet ${index + 1}","categoryId":${index + 1}}\n`).join('');

export const namesIn = (file: string) =>
  query<{ name: string }>(file, 'SELECT name FROM pet ORDER BY id').map(({ name }) => name);
