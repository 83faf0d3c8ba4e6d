/** Stores for the operator's commands to work on, and what the commands print. */
import path from 'node:path';
import Database from 'better-sqlite3';
import { expect } from 'vitest';
import type { NewPet } from '../../src/core/pets.ts';
import { openStore } from '../../src/store/open.ts';
import { temporaryFolder } from './app.ts';
import { type Exit, runCli } from './process.ts';

/** The sentences with which a command failed. */
export function commandErrorOf({ code, stdout, stderr }: Exit): string {
  expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
  expect(stderr).toMatch(/^(animal-store: [^\n]+\.\n)+$/);
  return stderr.replaceAll('animal-store: ', '').trimEnd();
}

export interface CommandFolder {
  folder: string;
  /** The store that the default DATABASE_URL names in this folder. */
  store: string;
  at: (name: string) => string;
  /** Runs a command here, which must succeed, and returns its stdout. */
  run: (...args: string[]) => Promise<string>;
  /** Runs a command here, which must fail, and returns its sentences. */
  refused: (...args: string[]) => Promise<string>;
}

/** Creates a folder to run commands in. It has a store of these animals, or no store without animals. */
export async function commandFolder(...pets: NewPet[]): Promise<CommandFolder> {
  const folder = temporaryFolder();
  const store = path.join(folder, 'data/animal-store.db');
  if (pets.length > 0) {
    const opened = await openStore(`sqlite:${store}`, { now: () => new Date() });
    await Promise.all(pets.map((pet) => opened.pets.add(pet)));
    await opened.close();
  }
  return {
    folder,
    store,
    at: (name) => path.join(folder, name),
    run: async (...args) => {
      const { code, stdout, stderr } = await runCli(args, { folder });
      expect(code, stderr).toBe(0);
      return stdout;
    },
    refused: async (...args) => commandErrorOf(await runCli(args, { folder })),
  };
}

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
export function change(file: string, sql: string): void {
  const database = new Database(file).unsafeMode();
  database.exec(sql);
  database.close();
}

export const namesIn = (file: string) =>
  query<{ name: string }>(file, 'SELECT name FROM pet ORDER BY id').map(({ name }) => name);
