/** The kinds of arguments that commands take, by their names in the usage: how each is read, and what it must be. Others are any text. */
import { isName, scopes } from '../core/accounts.ts';
import { statuses } from '../core/pets.ts';
import { sqliteFile } from '../store/open.ts';

const unitMs: Readonly<Record<string, number>> = { m: 60_000, h: 3_600_000, d: 86_400_000 };

/** Reads `30m`, `24h` or `90d` as milliseconds. */
const durationFrom = (least: number) => ({
  read(text: string) {
    const [, count, unit = ''] = /^(\d{1,5})([mhd])$/.exec(text) ?? [];
    const ms = unitMs[unit];
    return ms === undefined || Number(count) < least ? undefined : Number(count) * ms;
  },
  must: `a whole number from ${least} to 99999 and m, h or d, such as 24h`,
});

const toSqlite = 'To SQLite use export and import instead, which give the animals new ids';

export interface Kind {
  /** Undefined if the text is not what it must be. */
  read: (text: string) => unknown;
  must: string;
}

/** `read` returns undefined if the text is not what it must be. */
export const kinds = {
  duration: durationFrom(0),
  lifetime: durationFrom(1),
  id: {
    read: (text: string) => (/^[1-9]\d{0,14}$/.test(text) ? Number(text) : undefined),
    must: 'the number that key list shows',
  },
  /** In NFC, as the forms of the account pages have it: otherwise nobody could sign in with it. */
  name: {
    read: (text: string) => (isName(text.normalize('NFC')) ? text.normalize('NFC') : undefined),
    must: '1 to 100 printable characters, without a space at either end',
  },
  scopes: {
    read(text: string) {
      const given = text.split(',');
      const known = scopes.filter((scope) => given.includes(scope));
      return given.every((scope) => known.includes(scope as never)) ? known : undefined;
    },
    must: `one or more of ${scopes.join(',')}`,
  },
  status: {
    read: (text: string) => statuses.find((status) => status === text),
    must: `one of ${statuses.join(', ')}`,
  },
  'sqlite-url': {
    read: (text: string) => (/^sqlite:./.test(text) ? sqliteFile(text) : undefined),
    must: `sqlite: and the path of a file. From PostgreSQL to PostgreSQL use pg_dump. ${toSqlite}`,
  },
  'postgres-url': {
    read: (text: string) => (/^postgres(ql)?:\/\//.test(text) ? text : undefined),
    must: `postgres://user:password@host:port/database. ${toSqlite}`,
  },
};
