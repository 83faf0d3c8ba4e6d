/** Bugs that the tests must notice: one text of the source replaced, and the test that is to fail for it. */
export interface PlantedBug {
  name: string;
  /** From the project's folder on. */
  file: string;
  from: string;
  to: string;
  /** The test's file, and its name from the start on, as `vitest -t` takes it. */
  caughtBy: [file: string, test: string];
}

export const plantedBugs: PlantedBug[] = [
  {
    name: 'synchronous=NORMAL: a commit does not wait for the disk',
    file: 'src/repository/sqlite/connection.ts',
    from: "connection.pragma('synchronous = FULL');",
    to: "connection.pragma('synchronous = NORMAL');",
    caughtBy: ['test/reliability/fsync.test.ts', 'each 201 to 600 concurrent additions'],
  },
  {
    name: 'an answer before the commit',
    file: 'src/repository/sqlite/writer-thread.ts',
    from: 'tell(batch.length, () => run.immediate(batch));',
    to: `connection.exec('BEGIN IMMEDIATE');
    tell(batch.length, () => batch.map(([name, input]) => commands[name](input)));
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 50);
    connection.exec('COMMIT');`,
    caughtBy: ['test/storage.test.ts', 'writing > none is acknowledged before its commit'],
  },
  {
    name: 'no AUTOINCREMENT: the id of a row that is gone is given again',
    file: 'migrations/sqlite/0002_rendered_animals.sql',
    from: 'INTEGER PRIMARY KEY AUTOINCREMENT CHECK',
    to: 'INTEGER PRIMARY KEY CHECK',
    caughtBy: ['test/storage.test.ts', 'writing > an id is never given again'],
  },
  {
    name: 'a write that failed is acknowledged',
    file: 'src/repository/sqlite/writer.ts',
    from: 'for (const { reject } of answered) reject(failure);',
    to: "for (const { resolve } of answered) resolve({ outcome: 'added', id: 1 } as never);",
    caughtBy: ['test/storage.test.ts', 'writing > 503 service_unavailable: a write that fails'],
  },
  {
    name: 'any well-formed key opens',
    file: 'src/repository/sqlite/reader.ts',
    from: 'WHERE hash = ?`',
    to: 'WHERE hash IS NOT ?`',
    caughtBy: ['test/auth.test.ts', '401 and 403 > invalid_api_key: well-formed, but not known'],
  },
  {
    name: 'a revoked key goes on opening',
    file: 'src/accounts.ts',
    from: "if (key.revokedAt !== null) return 'revoked_api_key';",
    to: '',
    caughtBy: ['test/auth.test.ts', '401 and 403 > revoked_api_key, within a second'],
  },
  {
    name: 'the scope of a key is not looked at',
    file: 'src/http/auth.ts',
    from: 'request.apiKey?.scopes.includes(scope)',
    to: 'request.apiKey',
    caughtBy: ['test/auth.test.ts', '401 and 403 > insufficient_scope'],
  },
  {
    name: 'no time-out of a request',
    file: 'src/app.ts',
    from: 'const requestTimeoutMs = 9000;',
    to: 'const requestTimeoutMs = 0;',
    caughtBy: ['test/reliability/slow-clients.test.ts', 'slow and silent clients'],
  },
  {
    name: 'all pipelined requests at once',
    file: 'src/http/connection/pipelining.ts',
    from: 'if (response.socket === null)',
    to: 'if (response.req === undefined)',
    caughtBy: ['test/reliability/pipelining.test.ts', 'what a client pipelined before it went away'],
  },
  {
    name: 'a cache that a write does not empty',
    file: 'src/http/response-cache.ts',
    from: 'const read = state();',
    to: 'const read = current ?? state();',
    caughtBy: ['test/response-cache.test.ts', 'no reader sees a page older than an acknowledged write'],
  },
  {
    name: 'a retry adds a second animal',
    file: 'src/repository/sqlite/commands.ts',
    from: 'if (known) return',
    to: 'if (known && !known.same) return',
    caughtBy: ['test/createPet.test.ts', 'POST /v1/pets with Idempotency-Key > 201 again with Idempotent-Replayed'],
  },
  {
    name: 'unknown fields of a body are accepted',
    file: 'src/pets.ts',
    from: "description: 'An animal to add.', additionalProperties: false",
    to: "description: 'An animal to add.', additionalProperties: true",
    caughtBy: ['test/createPet.test.ts', 'POST /v1/pets > 400 invalid_body'],
  },
  {
    name: 'integers pass through a JavaScript number',
    file: 'src/int64.ts',
    // biome-ignore lint/suspicious/noTemplateCurlyInString: a text of the source.
    from: "return BigInt(`${sign}${significant}${'0'.repeat(zeros)}`);",
    to: 'return BigInt(Number(source));',
    caughtBy: ['test/properties.test.ts', 'for any input > an int64 comes back to the last digit'],
  },
  {
    name: 'each page begins with the last animal of the one before',
    file: 'src/repository/sqlite/reader.ts',
    from: 'WHERE status = +? AND id > +?',
    to: 'WHERE status = +? AND id >= +?',
    caughtBy: ['test/listPets.test.ts', 'GET /v1/pets > 200: Link leads through all pages'],
  },
  {
    name: 'a stop that does not wait for requests under way',
    file: 'src/server/serve.ts',
    from: 'await app.close();',
    to: 'process.exit(0);',
    caughtBy: ['test/process.test.ts', 'the end > SIGTERM: a request under way is answered'],
  },
  {
    name: 'a failed fsync is forgiven',
    file: 'src/repository/sqlite/writer.ts',
    from: 'const fatal = /^SQLITE_IOERR_(DIR_)?FSYNC$/;',
    to: 'const fatal = /^never$/;',
    caughtBy: ['test/reliability/disk.test.ts', 'a failed fsync of store.db-wal'],
  },
  {
    name: 'a page is kept for whatever cursor it was asked with',
    file: 'src/http/response-cache.ts',
    // biome-ignore lint/suspicious/noTemplateCurlyInString: a text of the source.
    from: '`${query.limit} ${query.status} ${query.after}`',
    // biome-ignore lint/suspicious/noTemplateCurlyInString: a text of the source.
    to: '`${query.limit} ${query.status}`',
    caughtBy: ['test/reliability/model.test.ts', 'whatever is asked in whatever order'],
  },
  {
    name: 'an export does not wait for the disk',
    file: 'src/repository/files.ts',
    from: 'fs.fsyncSync(descriptor);\n    if',
    to: 'if',
    caughtBy: ['test/reliability/made-files.test.ts', 'export waits'],
  },
  {
    name: 'a backup does not wait for its name to be on disk',
    file: 'src/cli/output-file.ts',
    from: 'sync(path.dirname(file));',
    to: '',
    caughtBy: ['test/reliability/made-files.test.ts', 'backup waits'],
  },
];
