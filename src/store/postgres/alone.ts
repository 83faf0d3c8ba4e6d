/** One connection to a database, for a command that works without a pool. */
import type { OpenOptions } from '../store.ts';
import { type Connection, createConnector } from './connection.ts';
import { translate } from './errors.ts';
import { prepareDatabase } from './open.ts';
import { readTarget } from './url.ts';

export interface Alone extends Pick<Connection, 'sql' | 'destroy'> {
  /** The URL without user, password and parameters, for messages. */
  label: string;
}

/** Connects after checking the settings; migrates the schema if `options.migrate` allows. Rejects with OpenError. */
export async function openAlone(databaseUrl: string, options: OpenOptions): Promise<Alone> {
  const target = readTarget(databaseUrl);
  const connect = createConnector(target);
  await prepareDatabase(target, () => connect(() => undefined), options);
  const { sql, destroy } = await translated(() => connect(() => undefined));
  return { sql, destroy, label: target.label };
}

/** Rejects with ApiError `service_unavailable` if the database or the connection is the cause. */
export async function translated<Result>(work: () => Promise<Result>): Promise<Result> {
  try {
    return await work();
  } catch (error) {
    throw translate(error);
  }
}
