/** Stores for the operator's commands to work on, and what the commands say. */
import path from 'node:path';
import Database from 'better-sqlite3';
import { expect } from 'vitest';
import type { NewPet } from '../../src/pets.ts';
import { openRepository } from '../../src/repository/open.ts';
import { temporaryFolder } from './app.ts';
import { type Exit, runCli } from './process.ts';

/** The sentences with which a command refused. */
export function commandErrorOf({ code, stdout, stderr }: Exit): string {
  expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
  expect(stderr).toMatch(/^(animal-store: [^\n]+\.\n)+$/);
  return stderr.replaceAll('animal-store: ', '').trimEnd();
}

export interface CommandFolder {
  folder: string;
  /** The store that the default DATABASE_URL leads to in this folder. */
  store: string;
  at: (name: string) => string;
  /** Runs a command here that must succeed, and returns what it printed. */
  run: (...args: string[]) => Promise<string>;
  /** Runs a command here that must be refused, and returns its sentences. */
  refused: (...args: string[]) => Promise<string>;
}

/** A folder to run commands in, with a store of these animals; of none, without a store. */
export async function commandFolder(...pets: NewPet[]): Promise<CommandFolder> {
  const folder = temporaryFolder();
  const store = path.join(folder, 'data/animal-store.db');
  if (pets.length > 0) {
    const repository = await openRepository(`sqlite:${store}`, { now: () => new Date() });
    await Promise.all(pets.map((pet) => repository.pets.add(pet)));
    await repository.close();
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

/** Reads a store through a connection of its own. */
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
