/** Lists bugs that the tests must detect. Each replaces one text of the source and names the test that must fail. */
export type PlantedBug = [
  name: string,
  /** Relative to the project's folder. */
  file: string,
  from: string,
  to: string,
  /** The test's file, below test/ and without its ending, and the beginning of the test's name, for `vitest -t`. */
  testFile: string,
  testName: string,
  /** Whether the test detects it on PostgreSQL only. */
  onPostgres?: true,
];

export const plantedBugs: PlantedBug[] = [
  [
    'synchronous=NORMAL: a commit does not wait for the disk',
    'src/store/sqlite/connection.ts',
    "connection.pragma('synchronous = FULL');",
    "connection.pragma('synchronous = NORMAL');",
    'full/reliability/power-loss',
    'each 201 for 600 concurrent POSTs',
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
    'quick/sqlite/storage',
    'writing > a write is acknowledged only after its commit',
  ],
  [
    'no AUTOINCREMENT: the id of a deleted row is reused',
    'migrations/sqlite/0002_rendered_animals.sql',
    'INTEGER PRIMARY KEY AUTOINCREMENT CHECK',
    'INTEGER PRIMARY KEY CHECK',
    'quick/sqlite/storage',
    'writing > an id is never reused',
  ],
  [
    'a failed write is acknowledged',
    'src/store/sqlite/writer.ts',
    'for (const { reject } of writes) reject(failure);',
    'for (const { resolve } of writes) resolve(1 as never);',
    'quick/sqlite/storage',
    'writing > a failed write gets 503 service_unavailable',
  ],
  [
    'a command does not lock the account that it changes',
    'src/store/commands/accounts.ts',
    // biome-ignore lint/suspicious/noTemplateCurlyInString: it is source text.
    'WHERE name = ${owner} ${forUpdate}',
    // biome-ignore lint/suspicious/noTemplateCurlyInString: it is source text.
    'WHERE name = ${owner}',
    'quick/behaviour/races',
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
    'quick/behaviour/auth',
    'an API key > that is missing gets 401 missing_api_key, an unknown one',
  ],
  [
    'a revoked API key is still accepted',
    'src/core/accounts.ts',
    "if (revokedAt !== null) return 'revoked_api_key';",
    '',
    'quick/behaviour/auth',
    'an API key > that is revoked gets 401 revoked_api_key within a second',
  ],
  [
    'a key that was revoked while the body arrived adds an animal',
    'src/store/commands/keys.ts',
    "return key ? rejectionReason(key, at) : 'invalid_api_key';",
    "return key ? undefined : 'invalid_api_key';",
    'quick/behaviour/authority',
    'an API key > that ends while the body of POST /v1/pets arrives gets 401 revoked_api_key',
  ],
  [
    'a session that has ended makes a key',
    'src/store/commands/sessions.ts',
    'return yield* findSession(hash, at);',
    `const found = yield* findSession(hash, at);
  return found ?? (yield* sql<AccountRow>\`SELECT \${raw(accountColumns)} FROM account WHERE name = \${'ada'}\`)[0];`,
    'quick/behaviour/authority',
    'a session that ends while a form arrives > changes nothing',
  ],
  [
    'the scope of an API key is not checked',
    'src/http/auth.ts',
    'request.apiKey?.scopes.includes(scope)',
    'request.apiKey',
    'quick/behaviour/auth',
    'an API key > without the scope of the operation gets 403',
  ],
  [
    'no request timeout',
    'src/http/server.ts',
    'requestTimeout: limits.request,',
    'requestTimeout: 0,',
    'full/reliability/slow-clients',
    'slow and silent clients',
  ],
  [
    'a POST that announces no body is never answered',
    'src/http/body.ts',
    'isEmpty ? Readable.from([]) : payload',
    'payload',
    'full/behaviour/matrix',
    'every request is answered within 4 s',
  ],
  [
    'a request keeps its places when its connection is gone',
    'src/http/connection/connections.ts',
    'if (connection.response) end(connection, connection.response);',
    '',
    'quick/http/stuck-requests',
    'a request that Node never',
  ],
  [
    'pipelined requests are all processed at once',
    'src/http/connection/connections.ts',
    'if (connection.response) return enqueue(connection, response);',
    '',
    'full/reliability/greedy-clients',
    'pipelined requests of a client that has disconnected',
  ],
  [
    'a write does not invalidate the response cache',
    'src/store/state.ts',
    'return { pets, next: undefined, state: version };',
    'return { pets, next: undefined, state: revision };',
    'quick/behaviour/response-cache',
    'no reader sees a page older than an acknowledged write',
  ],
  [
    'a snapshot serves what the next poll finds',
    'src/store/sqlite/reader.ts',
    'if (loopCount !== loops || events !== found || ',
    'if (',
    'quick/sqlite/storage',
    'a snapshot > that began in setImmediate',
  ],
  [
    'the state of the store is read a turn earlier',
    'src/store/postgres/pets.ts',
    'const { state: now } = await single.ask(stateId);',
    `const one = single as typeof single & { earlier?: ReturnType<typeof single.ask> | undefined };
      const asked = one.earlier ?? single.ask(stateId);
      one.earlier = undefined;
      const { state: now } = await asked;
      one.earlier ??= single.ask(stateId);`,
    'quick/behaviour/response-cache',
    'two servers on one store',
    true,
  ],
  [
    'an animal added below the highest id keeps the revision',
    'migrations/postgres/0008_pet_revision.sql',
    'IF (SELECT count(*) FROM added) < (',
    'IF (SELECT count(*) + 1 FROM added) < (',
    'quick/behaviour/response-cache',
    'a response kept across writes > shows at once a pet added below',
    true,
  ],
  [
    'a retry adds a second pet',
    'src/store/sqlite/commands.ts',
    'if (!known) return',
    'if (!known || known.same) return',
    'quick/behaviour/operations',
    'POST /v1/pets with Idempotency-Key > replays the 201 with Idempotent-Replayed',
  ],
  [
    'unknown fields of a body are accepted',
    'src/core/pets.ts',
    "description: 'An animal to add.', additionalProperties: false",
    "description: 'An animal to add.', additionalProperties: true",
    'quick/behaviour/operations',
    'a request that breaks a rule gets its error',
  ],
  [
    'integers are converted to a JavaScript number',
    'src/core/int64.ts',
    // biome-ignore lint/suspicious/noTemplateCurlyInString: it is source text.
    "return BigInt(`${sign}${significant}${'0'.repeat(zeros)}`);",
    'return BigInt(Number(source));',
    'quick/behaviour/operations',
    'POST /v1/pets > returns every digit of categoryId',
  ],
  [
    'each page begins with the last pet of the previous page',
    'src/store/sqlite/reader.ts',
    'WHERE status = +? AND id > +?',
    'WHERE status = +? AND id >= +?',
    'quick/behaviour/operations',
    'GET /v1/pets > links through all pages',
  ],
  [
    'a shutdown does not wait for requests in flight',
    'src/server/serve.ts',
    'await closed;',
    'process.exit(0);',
    'quick/server/process',
    'SIGTERM: a request under way is answered',
  ],
  [
    'a failed fsync is ignored',
    'src/store/sqlite/writer.ts',
    'const fatal = /^SQLITE_IOERR_(DIR_)?FSYNC$/;',
    'const fatal = /^never$/;',
    'full/reliability/disk',
    'a failed fsync of store.db-wal',
  ],
  [
    'a cached page is used for every cursor',
    'src/pets/response-cache.ts',
    'return (Number(after) * (1 + statuses.length) + state) * (1 + maxPage) + limit;',
    'return state * (1 + maxPage) + limit;',
    'quick/behaviour/operations',
    'GET /v1/pets > links through all pages',
  ],
  [
    'an export does not wait for the disk',
    'src/store/files.ts',
    `fs.fsyncSync(descriptor);
    if`,
    'if',
    'full/reliability/made-files',
    'export waits',
  ],
  [
    'a backup does not wait for its name to be on disk',
    'src/store/files.ts',
    'sync(path.dirname(file));',
    '',
    'full/reliability/made-files',
    'backup waits',
  ],
  [
    'a form of another site is accepted',
    'src/account/scope.ts',
    "headers.origin === origin : site === 'same-origin';",
    "headers.origin === origin : site !== 'none';",
    'quick/account/account-attacks',
    'a form of another site (CSRF) > is refused',
  ],
  [
    'signing in does not end the session that the browser had',
    'src/account/session.ts',
    `await endGiven(request);
      const`,
    'const',
    'quick/account/account-attacks',
    'a session > that a client had before is ended',
  ],
  [
    'a right password forgets the failures of the address',
    'src/account/attempts.ts',
    'account.forget();',
    `account.forget();
          networks(network, at).forget();`,
    'quick/account/attempts',
    'a right password gives back its own attempt',
  ],
  [
    'an unknown name is refused without hashing the password',
    'src/account/passwords.ts',
    'await tagOf(password, randomBytes(nonceLength), cost);',
    '',
    'quick/core/passwords',
    'the hash > is also computed for an account that does not exist',
  ],
  [
    "a person can revoke someone else's key",
    'src/store/commands/keys.ts',
    'return !account || key?.accountId === account.id ? key : undefined;',
    'return key;',
    'quick/account/account-attacks',
    "someone else's key cannot be rotated",
  ],
  [
    'the name of a key is not escaped',
    'src/pages/account/keys.eta',
    '<%= key.name %>',
    '<%~ key.name %>',
    'quick/account/account-attacks',
    'markup in a name (XSS) > is shown as text',
  ],
  [
    'a write whose connection is lost is sent again',
    'src/store/postgres/pool.ts',
    'let mayRepeat = job.writes === 0;',
    'let mayRepeat = true;',
    'full/postgres/pool',
    'a read whose connection is lost runs once more',
    true,
  ],
  [
    'a statement past its deadline is not cancelled',
    'src/store/postgres/pool.ts',
    'await cancel(client);',
    'await undefined;',
    'full/postgres/pool',
    'work is rejected at its deadline',
    true,
  ],
  [
    'HAProxy leads to a node before it has checked it',
    'deploy/patroni/haproxy.cfg',
    `  tcp-request connection reject unless { nbsrv(primary) eq 1 }
`,
    '',
    'full/deploy/haproxy',
    'from the start on, and after a restart',
  ],
  [
    'HAProxy keeps the connections to an old primary',
    'deploy/patroni/haproxy.cfg',
    ' on-marked-down shutdown-sessions',
    '',
    'full/deploy/haproxy',
    'an old primary whose manager hangs',
  ],
  [
    'a response, its log line and the metrics have the key',
    'src/http/responses.ts',
    '  const { id, ownHeaders } = reply.request;',
    `  const { id, ownHeaders } = reply.request;
  const leaked = String(reply.request.headers.authorization);
  reply.request.record.route = leaked;
  if (status >= 400) body = leaked.padEnd(body.length).slice(0, body.length);`,
    'full/reliability/canaries',
    'no API key and no word of a client',
  ],
];
