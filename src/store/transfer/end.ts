/** One end of a copy: what a copy needs of a store, whichever database holds it. */
import type { Row, Table } from './tables.ts';

/** Each rejects with the error of its driver. */
export interface End {
  /** Names the store in messages. */
  label: string;
  /** Runs a statement that both databases understand, with parameters $1, $2, … Resolves to the rows. */
  run(statement: string, values?: string[]): Promise<Row[]>;
  /** Runs `work` in a transaction. `snapshot`: it reads one state of the store and changes nothing. */
  transaction<Result>(kind: 'write' | 'snapshot', work: () => Promise<Result>): Promise<Result>;
  /** Reads a table page by page in primary key order, starting after the row `after`. */
  pages(table: Table, after?: Row): AsyncGenerator<Row[]>;
  insert(table: Table, rows: Row[]): Promise<void>;
  hasTable(name: string): Promise<boolean>;
  /** The highest id ever given, even if its row has been deleted; 0 if none was. */
  lastId(table: string): Promise<string>;
  setLastId(table: string, id: string): Promise<void>;
  close(): void;
}
