/** Lists bugs that the tests must detect, where `npm run test:mutation` does not change the source or run the test. Each replaces one text of the source and names the test that must fail. */
export type PlantedBug = [
  name: string,
  /** Relative to the project's folder. */
  file: string,
  from: string,
  to: string,
  /** The test's file, below test/ and without its ending, and the beginning of the test's name, for `vitest -t`. */
  testFile: string,
  testName: string,
  /** Whether a test of api/ detects it on PostgreSQL only. */
  onPostgres?: true,
];

export const plantedBugs: PlantedBug[] = [
  [
    'a trigger that an SQLite file brings along deletes animals',
    'src/store/sqlite/store-file.ts',
    'if (differences)',
    'if (false)',
    'system/sqlite/schema',
    'a store is refused',
  ],
  [
    'a response before the commit',
    'src/store/sqlite/writer-thread.ts',
    'outputs = run.immediate(batch);',
    `connection.exec('BEGIN IMMEDIATE');
    reply(
      batch.length,
      runCommands(batch),
    );
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 50);
    connection.exec('COMMIT');
    return;`,
    'system/sqlite/storage',
    'writing > a write is acknowledged only after its commit',
  ],
  [
    'no AUTOINCREMENT: the id of a deleted row is reused',
    'migrations/sqlite/0002_rendered_animals.sql',
    'AUTOINCREMENT',
    '',
    'system/sqlite/storage',
    'writing > an id is never reused',
  ],
  [
    'a failed write is acknowledged',
    'src/store/sqlite/writer.ts',
    'for (const { reject } of writes) reject(failure);',
    'for (const { resolve } of writes) resolve(1 as never);',
    'system/sqlite/storage',
    'writing > a failed write gets 503 service_unavailable',
  ],
  [
    'a command does not lock the account that it changes',
    'src/store/commands/accounts.ts',
    // biome-ignore lint/suspicious/noTemplateCurlyInString: it is source text.
    '${forUpdate}',
    '',
    'api/races',
    'any two commands at once',
    true,
  ],
  [
    'any well-formed API key is accepted',
    'src/store/accounts.ts',
    // biome-ignore lint/suspicious/noTemplateCurlyInString: it is source text.
    'WHERE hash = ${hash}`',
    // biome-ignore lint/suspicious/noTemplateCurlyInString: it is source text.
    'WHERE hash <> ${hash}`',
    'api/limits',
    'the limit of rejected keys > returns 429 instead of 401',
  ],
  [
    'a key that was revoked while the body arrived adds an animal',
    'src/store/commands/keys.ts',
    'rejectionReason(key, at)',
    'undefined',
    'api/authority',
    'an API key > that ends while the body of POST /v1/pets arrives gets 401 revoked_api_key',
  ],
  [
    'a session that has ended makes a key',
    'src/store/commands/sessions.ts',
    'return yield* findSession(hash, at);',
    `const found = yield* findSession(hash, at);
  return found ?? (yield* sql<AccountRow>\`SELECT \${raw(accountColumns)} FROM account WHERE name = \${'ada'}\`)[0];`,
    'api/authority',
    'a session that ends while a form arrives > changes nothing',
  ],
  [
    'each chunk of a body stays an object',
    'src/http/body.ts',
    "request.on('data', (chunk: Buffer) => {",
    `const all: Buffer[] = [];
  request.on('data', (chunk: Buffer) => {
    all.push(chunk);`,
    'system/process/bare-port',
    '100 bodies in 16,000 chunks',
  ],
  [
    'clients make series of metrics',
    'src/http/metrics.ts',
    "methods.has(method) ? method : 'other'",
    'method',
    'system/load/matrix',
    'on SQLite, every request is answered within 4 s',
  ],
  [
    'a write does not invalidate the response cache',
    'src/store/state.ts',
    'return { pets, next: undefined, state: version };',
    'return { pets, next: undefined, state: revision };',
    'api/response-cache',
    'no reader sees a page older than an acknowledged write',
  ],
  [
    'an animal is read before its state',
    'src/store/sqlite/reader.ts',
    'const known = state.known();\n      return foundOf(byId.get(id), known);',
    'return foundOf(byId.get(id), state.now());',
    'system/sqlite/storage',
    'what is current is what is stored',
  ],
  [
    'the state of the store is read a turn earlier',
    'src/store/postgres/pets.ts',
    'const { state: now } = await single(stateId);',
    `const one = single as typeof single & { earlier?: ReturnType<typeof single> | undefined };
      const asked = one.earlier ?? single(stateId);
      one.earlier = undefined;
      const { state: now } = await asked;
      one.earlier ??= single(stateId);`,
    'system/load/two-servers',
    'on PostgreSQL, two servers on one store',
  ],
  [
    'an animal added below the highest id keeps the revision',
    'migrations/postgres/0008_pet_revision.sql',
    'IF (SELECT count(*) FROM added) < (',
    'IF (SELECT count(*) + 1 FROM added) < (',
    'api/response-cache',
    'a response kept across writes > shows at once a pet added below',
    true,
  ],
  [
    'a retry adds a second pet',
    'src/store/sqlite/commands.ts',
    'if (!known) return',
    'if (!known || known.same) return',
    'api/operations',
    'POST /v1/pets with Idempotency-Key > replays the 201 with Idempotent-Replayed',
  ],
  [
    'each page begins with the last pet of the previous page',
    'src/store/sqlite/reader.ts',
    'WHERE status = +? AND id > +?',
    'WHERE status = +? AND id >= +?',
    'api/paging',
    'a walk through the pages returns each pet exactly once',
  ],
  [
    'a shutdown does not wait for requests in flight',
    'src/server/serve.ts',
    'closeConnections(app, opened?.sockets ?? [app.server])',
    'process.exit(0)',
    'system/process/signals',
    'SIGINT to all processes of npm start',
  ],
  [
    'a failed fsync is ignored',
    'src/store/sqlite/writer.ts',
    "'SQLITE_IOERR_FSYNC', ",
    '',
    'system/disk/disk',
    'a failed fsync of store.db-wal',
  ],
  [
    'an export does not wait for the disk',
    'src/store/files.ts',
    `fs.fsyncSync(descriptor);
    return`,
    'return',
    'system/disk/made-files',
    'export waits',
  ],
  [
    'a backup does not wait for its name to be on disk',
    'src/store/files.ts',
    'syncFolder(folder, warn)',
    '',
    'system/disk/made-files',
    'backup waits',
  ],
  [
    'a backup replaces a file that a program has opened, without its lock',
    'src/store/sqlite/replace.ts',
    'isDatabase && canRenameOpen ? lockOut(file) : undefined',
    'undefined',
    'system/cli/backup',
    'a file that SQLite or a program knows > a program that has opened the old file',
  ],
  [
    'a backup looks once at what lies beside its name',
    'src/store/files.ts',
    '    refuseSidecars(file);\n    place',
    '    place',
    'system/cli/backup',
    'a file that SQLite or a program knows > what comes to lie there',
  ],
  [
    'a log of another file is applied',
    'src/store/sqlite/store-file.ts',
    'if (wal && readHeader',
    'if (false && readHeader',
    'system/cli/backup',
    'a file that SQLite or a program knows > a log that was put beside a backup',
  ],
  [
    'a form of another site is accepted',
    'src/account/scope.ts',
    "headers.origin === origin : site === 'same-origin';",
    "headers.origin === origin : site !== 'none';",
    'api/account/account-attacks',
    'a form of another site (CSRF) > is refused',
  ],
  [
    'signing in does not end the session that the browser had',
    'src/account/session.ts',
    `await endGiven(request);
      const`,
    'const',
    'api/account/sessions',
    'a session > that a client had before is ended',
  ],
  [
    'a right password forgets the failures of the address',
    'src/account/attempts.ts',
    'account.forget();',
    `account.forget();
          networks(network, at).forget();`,
    'unit/account/attempts',
    'a right password gives back its own attempt',
  ],
  [
    'an unknown name is refused without hashing the password',
    'src/account/passwords.ts',
    'await tagOf(password, randomBytes(nonceLength), cost);',
    '',
    'unit/core/passwords',
    'the hash > is also computed for an account that does not exist',
  ],
  [
    "a person can revoke someone else's key",
    'src/store/commands/keys.ts',
    'return !account || key?.accountId === account.id ? key : undefined;',
    'return key;',
    'api/account/account-attacks',
    "someone else's key cannot be rotated",
  ],
  [
    'the name of a key is not escaped',
    'src/pages/account/row.eta',
    '<%= key.name %><span',
    '<%~ key.name %><span',
    'api/account/account-attacks',
    'markup in a name (XSS) > is shown as text',
  ],
  [
    'a write whose connection is lost is sent again',
    'src/store/postgres/pool.ts',
    'job.writes === 0',
    'true',
    'system/postgres/pool',
    'a read whose connection is lost runs once more',
  ],
  [
    'a connection past its deadline is replaced while its statement runs',
    'src/store/postgres/pool.ts',
    'do await Promise.race',
    'do void Promise.race',
    'system/postgres/pool',
    'work is rejected at its deadline',
  ],
  [
    'a connection is replaced while its commit waits for the standby',
    'src/store/postgres/pool.ts',
    'writes > 0 && (await waitsForStandby())',
    'false',
    'system/postgres/standby',
    'with connections=10',
  ],
  [
    'commits that wait for the standby take all connections',
    'src/store/postgres/pool.ts',
    'Math.ceil(size / 2)',
    'size',
    'system/postgres/pool',
    'half of the connections',
  ],
  [
    'HAProxy leads to a node before it has checked it',
    'deploy/patroni/haproxy.cfg',
    `  tcp-request connection reject unless { nbsrv(primary) eq 1 }
`,
    '',
    'system/deploy/haproxy',
    'from the start on, and after a restart',
  ],
  [
    'HAProxy keeps the connections to an old primary',
    'deploy/patroni/haproxy.cfg',
    ' on-marked-down shutdown-sessions',
    '',
    'system/deploy/haproxy',
    'an old primary whose manager hangs',
  ],
  [
    'the body of an error and its log line have the key',
    'src/http/errors.ts',
    'request.errorCode = error.code;',
    `request.errorCode = error.code;
  const leaked = String(request.headers.authorization);
  error.message = leaked;
  request.log.warn(leaked);`,
    'system/process/canaries',
    'no API key and no word of a client',
  ],
];
