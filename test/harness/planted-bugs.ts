/** Lists bugs that the tests must detect. Each replaces one text of the source and names the test that must fail. */
export interface PlantedBug {
  name: string;
  /** Relative to the project's folder. */
  file: string;
  from: string;
  to: string;
  /** The test's file, and the beginning of its name, for `vitest -t`. */
  caughtBy: [file: string, test: string];
  /** Whether the test detects it on PostgreSQL only. */
  onPostgres?: boolean;
}

export const plantedBugs: PlantedBug[] = [
  {
    name: 'synchronous=NORMAL: a commit does not wait for the disk',
    file: 'src/store/sqlite/connection.ts',
    from: "connection.pragma('synchronous = FULL');",
    to: "connection.pragma('synchronous = NORMAL');",
    caughtBy: ['test/full/reliability/power-loss.test.ts', 'each 201 for 600 concurrent POSTs'],
  },
  {
    name: 'a response before the commit',
    file: 'src/store/sqlite/writer-thread.ts',
    from: 'outputs = run.immediate(batch);',
    to: `connection.exec('BEGIN IMMEDIATE');
    reply(
      batch.length,
      runCommands(batch),
    );
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 50);
    connection.exec('COMMIT');
    return;`,
    caughtBy: ['test/quick/sqlite/storage.test.ts', 'writing > a write is acknowledged only after its commit'],
  },
  {
    name: 'no AUTOINCREMENT: the id of a deleted row is reused',
    file: 'migrations/sqlite/0002_rendered_animals.sql',
    from: 'INTEGER PRIMARY KEY AUTOINCREMENT CHECK',
    to: 'INTEGER PRIMARY KEY CHECK',
    caughtBy: ['test/quick/sqlite/storage.test.ts', 'writing > an id is never reused'],
  },
  {
    name: 'a failed write is acknowledged',
    file: 'src/store/sqlite/writer.ts',
    from: 'for (const { reject } of answered) reject(failure);',
    to: 'for (const { resolve } of answered) resolve(1 as never);',
    caughtBy: ['test/quick/sqlite/storage.test.ts', 'writing > a failed write gets 503 service_unavailable'],
  },
  {
    name: 'a command does not lock the account that it changes',
    file: 'src/store/commands/accounts.ts',
    // biome-ignore lint/suspicious/noTemplateCurlyInString: it is source text.
    from: 'WHERE name = ${owner.account} ${forUpdate}',
    // biome-ignore lint/suspicious/noTemplateCurlyInString: it is source text.
    to: 'WHERE name = ${owner.account}',
    caughtBy: ['test/quick/behaviour/races.test.ts', 'any two commands at once'],
    onPostgres: true,
  },
  {
    name: 'any well-formed API key is accepted',
    file: 'src/store/queries/accounts.ts',
    // biome-ignore lint/suspicious/noTemplateCurlyInString: it is source text.
    from: 'WHERE hash = ${hash}`',
    // biome-ignore lint/suspicious/noTemplateCurlyInString: it is source text.
    to: 'WHERE hash <> ${hash}`',
    caughtBy: [
      'test/quick/behaviour/auth.test.ts',
      'authentication > a well-formed but unknown key gets 401 invalid_api_key',
    ],
  },
  {
    name: 'a revoked API key is still accepted',
    file: 'src/core/accounts.ts',
    from: "if (key.revokedAt !== null) return 'revoked_api_key';",
    to: '',
    caughtBy: [
      'test/quick/behaviour/auth.test.ts',
      'authentication > a revoked key gets 401 revoked_api_key within a second',
    ],
  },
  {
    name: 'a key that was revoked while the body arrived adds an animal',
    file: 'src/store/commands/keys.ts',
    from: "if (key.revoked_at !== null) return 'revoked_api_key';",
    to: '',
    caughtBy: [
      'test/quick/behaviour/authority.test.ts',
      'an API key > that ends while the body of POST /v1/pets arrives gets 401 revoked_api_key',
    ],
  },
  {
    name: 'a session that has ended makes a key',
    file: 'src/store/commands/sessions.ts',
    // biome-ignore lint/suspicious/noTemplateCurlyInString: it is source text.
    from: 'AND used_at <= ${at + clockSkewMs}`;\n  return account;',
    // biome-ignore lint/suspicious/noTemplateCurlyInString: it is source text.
    to: 'AND used_at <= ${at + clockSkewMs} UNION ALL SELECT ${raw(accountColumns)} FROM account WHERE name = ${"ada"}`;\n  return account;',
    caughtBy: ['test/quick/behaviour/authority.test.ts', 'a session that ends while a form arrives > changes nothing'],
  },
  {
    name: 'the scope of an API key is not checked',
    file: 'src/http/auth.ts',
    from: 'request.apiKey?.scopes.includes(scope)',
    to: 'request.apiKey',
    caughtBy: [
      'test/quick/behaviour/auth.test.ts',
      'authentication > GET without pets:read and POST without pets:write',
    ],
  },
  {
    name: 'no request timeout',
    file: 'src/http/server.ts',
    from: 'requestTimeout: limits.request,',
    to: 'requestTimeout: 0,',
    caughtBy: ['test/full/reliability/slow-clients.test.ts', 'slow and silent clients'],
  },
  {
    name: 'a POST that announces no body is never answered',
    file: 'src/http/body.ts',
    from: 'isEmpty ? Readable.from([]) : payload',
    to: 'payload',
    caughtBy: ['test/full/behaviour/matrix.test.ts', 'every request gets its status within 4 s'],
  },
  {
    name: 'a request keeps its places when its connection is gone',
    file: 'src/http/connection/connections.ts',
    from: 'if (connection.response) end(connection, connection.response);',
    to: '',
    caughtBy: ['test/quick/http/stuck-requests.test.ts', 'a request that never ends'],
  },
  {
    name: 'pipelined requests are all processed at once',
    file: 'src/http/connection/connections.ts',
    from: 'if (connection.response) return enqueue(connection, request, response);',
    to: '',
    caughtBy: ['test/full/reliability/greedy-clients.test.ts', 'pipelined requests of a client that has disconnected'],
  },
  {
    name: 'a write does not invalidate the response cache',
    file: 'src/pets/response-cache.ts',
    from: 'if (read.revision === now.revision && (settled || read.version === now.version)) {',
    to: 'if (read.revision === now.revision) {',
    caughtBy: ['test/quick/behaviour/response-cache.test.ts', 'no reader sees a page older than an acknowledged write'],
  },
  {
    name: 'the state of the store is read a turn earlier',
    file: 'src/store/postgres/pets.ts',
    from: 'state: async () => (await single.ask(stateId)).state,',
    to: `state: (() => {
      let earlier: Promise<FoundPet> | undefined;
      return async () => {
        const asked = earlier ?? single.ask(stateId);
        earlier = undefined;
        const { state } = await asked;
        earlier ??= single.ask(stateId);
        return state;
      };
    })(),`,
    caughtBy: ['test/quick/behaviour/response-cache.test.ts', 'two servers on one store'],
    onPostgres: true,
  },
  {
    name: 'an animal added below the highest id keeps the revision',
    file: 'migrations/postgres/0008_pet_revision.sql',
    from: 'IF (SELECT count(*) FROM added) < (',
    to: 'IF (SELECT count(*) + 1 FROM added) < (',
    caughtBy: [
      'test/quick/behaviour/response-cache.test.ts',
      'a response kept across writes > shows at once a pet added below',
    ],
    onPostgres: true,
  },
  {
    name: 'a retry adds a second pet',
    file: 'src/store/sqlite/commands.ts',
    from: 'if (!known) return',
    to: 'if (!known || known.same) return',
    caughtBy: [
      'test/quick/behaviour/createPet.test.ts',
      'POST /v1/pets with Idempotency-Key > replays the 201 with Idempotent-Replayed',
    ],
  },
  {
    name: 'unknown fields of a body are accepted',
    file: 'src/core/pets.ts',
    from: "description: 'An animal to add.', additionalProperties: false",
    to: "description: 'An animal to add.', additionalProperties: true",
    caughtBy: ['test/quick/behaviour/createPet.test.ts', 'POST /v1/pets > returns 400 invalid_body'],
  },
  {
    name: 'integers are converted to a JavaScript number',
    file: 'src/core/int64.ts',
    // biome-ignore lint/suspicious/noTemplateCurlyInString: it is source text.
    from: "return BigInt(`${sign}${significant}${'0'.repeat(zeros)}`);",
    to: 'return BigInt(Number(source));',
    caughtBy: ['test/quick/behaviour/properties.test.ts', 'for any input > every digit of an int64 comes back'],
  },
  {
    name: 'each page begins with the last pet of the previous page',
    file: 'src/store/sqlite/reader.ts',
    from: 'WHERE status = +? AND id > +?',
    to: 'WHERE status = +? AND id >= +?',
    caughtBy: ['test/quick/behaviour/listPets.test.ts', 'GET /v1/pets > links through all pages'],
  },
  {
    name: 'a shutdown does not wait for requests in flight',
    file: 'src/server/serve.ts',
    from: 'await closed;',
    to: 'process.exit(0);',
    caughtBy: ['test/quick/server/process.test.ts', 'SIGTERM: a request under way is answered'],
  },
  {
    name: 'a failed fsync is ignored',
    file: 'src/store/sqlite/writer.ts',
    from: 'const fatal = /^SQLITE_IOERR_(DIR_)?FSYNC$/;',
    to: 'const fatal = /^never$/;',
    caughtBy: ['test/full/reliability/disk.test.ts', 'a failed fsync of store.db-wal'],
  },
  {
    name: 'a cached page is used for every cursor',
    file: 'src/pets/response-cache.ts',
    // biome-ignore lint/suspicious/noTemplateCurlyInString: it is source text.
    from: '`${query.limit} ${query.status} ${query.after}`',
    // biome-ignore lint/suspicious/noTemplateCurlyInString: it is source text.
    to: '`${query.limit} ${query.status}`',
    caughtBy: ['test/quick/behaviour/listPets.test.ts', 'GET /v1/pets > links through all pages'],
  },
  {
    name: 'an export does not wait for the disk',
    file: 'src/store/files.ts',
    from: 'fs.fsyncSync(descriptor);\n    if',
    to: 'if',
    caughtBy: ['test/full/reliability/made-files.test.ts', 'export waits'],
  },
  {
    name: 'a backup does not wait for its name to be on disk',
    file: 'src/store/files.ts',
    from: 'sync(path.dirname(file));',
    to: '',
    caughtBy: ['test/full/reliability/made-files.test.ts', 'backup waits'],
  },
  {
    name: 'a form of another site is accepted',
    file: 'src/account/scope.ts',
    from: "headers.origin === origin : site === 'same-origin';",
    to: "headers.origin === origin : site !== 'none';",
    caughtBy: ['test/quick/account/account-attacks.test.ts', 'a form of another site (CSRF) > is refused'],
  },
  {
    name: 'signing in does not end the session that the browser had',
    file: 'src/account/session.ts',
    from: 'await endGiven(request);\n      const',
    to: 'const',
    caughtBy: ['test/quick/account/account-attacks.test.ts', 'a session > that a client had before is ended'],
  },
  {
    name: 'a right password forgets the failures of the address',
    file: 'src/account/attempts.ts',
    from: 'account.forget();',
    to: 'account.forget();\n          networks(network, at).forget();',
    caughtBy: ['test/quick/account/attempts.test.ts', 'a right password gives back its own attempt'],
  },
  {
    name: 'an unknown name is refused without hashing the password',
    file: 'src/account/passwords.ts',
    from: 'await tagOf(password, randomBytes(nonceLength), cost);',
    to: '',
    caughtBy: ['test/quick/core/passwords.test.ts', 'the hash > is also computed for an account that does not exist'],
  },
  {
    name: "a person can revoke someone else's key",
    file: 'src/store/commands/keys.ts',
    from: "return key && (!account || Number(key.account_id) === Number(account.id)) ? key : 'no_key';",
    to: "return key ?? 'no_key';",
    caughtBy: ['test/quick/account/account-attacks.test.ts', "someone else's key > cannot be rotated or revoked"],
  },
  {
    name: 'the name of a key is not escaped',
    file: 'src/pages/account/keys.eta',
    from: '<%= key.name %>',
    to: '<%~ key.name %>',
    caughtBy: ['test/quick/account/account-attacks.test.ts', 'markup in a name (XSS) > is shown as text'],
  },
  {
    name: 'a write whose connection is lost is sent again',
    file: 'src/store/postgres/pool.ts',
    from: 'let mayRepeat = job.writes === 0;',
    to: 'let mayRepeat = true;',
    caughtBy: ['test/full/postgres/pool.test.ts', 'a read whose connection is lost runs once more'],
    onPostgres: true,
  },
  {
    name: 'a statement past its deadline is not cancelled',
    file: 'src/store/postgres/pool.ts',
    from: 'await cancel(client);',
    to: 'await undefined;',
    caughtBy: ['test/full/postgres/pool.test.ts', 'work is rejected at its deadline'],
    onPostgres: true,
  },
  {
    name: 'HAProxy leads to a node before it has checked it',
    file: 'deploy/patroni/haproxy.cfg',
    from: '  tcp-request connection reject unless { nbsrv(primary) eq 1 }\n',
    to: '',
    caughtBy: ['test/full/deploy/haproxy.test.ts', 'from the start on, and after a restart'],
  },
  {
    name: 'HAProxy keeps the connections to an old primary',
    file: 'deploy/patroni/haproxy.cfg',
    from: ' on-marked-down shutdown-sessions',
    to: '',
    caughtBy: ['test/full/deploy/haproxy.test.ts', 'an old primary whose manager hangs'],
  },
  {
    name: 'a response, its log line and the metrics have the key',
    file: 'src/http/responses.ts',
    from: '  const { id, routeHeaders, headersSet } = reply.request;',
    to: `  const { id, routeHeaders, headersSet } = reply.request;
  const leaked = String(reply.request.headers.authorization);
  reply.request.record.route = leaked;
  if (status >= 400) body = leaked.padEnd(body.length).slice(0, body.length);`,
    caughtBy: ['test/full/reliability/canaries.test.ts', 'no API key and no word of a client'],
  },
];
