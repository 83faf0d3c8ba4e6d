/** Adds three operations to a copy of the project, each by hand in five files at most, and checks that nothing else must know them. */
import { cpSync, existsSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { Ajv2020 } from 'ajv/dist/2020.js';
import formats from 'ajv-formats';
import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { temporaryFolder } from '../../support/app.ts';
import { launch, type Server, startServer } from '../../support/process.ts';
import { projectFolder } from '../../support/project.ts';
import { figure, patientMs } from '../../support/tier.ts';

const left = ['node_modules', '.git', 'data', 'coverage', 'screenshots'];

/** A copy of the project, with its packages. */
function copyProject(): string {
  const folder = temporaryFolder();
  const filter = (file: string) => !left.includes(path.relative(projectFolder, file));
  cpSync(projectFolder, folder, { recursive: true, filter });
  symlinkSync(`${projectFolder}node_modules`, path.join(folder, 'node_modules'));
  return folder;
}

/** Where a block of code belongs: a new file, the end of a file, or behind the first line that starts with a text. */
const place = /^\/\/ (\S+?)(?:, (at the end|after `(.+)`))?$/;

/** Adds a block of code to the copy; its imports go behind those of the file, or to the start. Returns the name of the file. */
function addBlock(folder: string, block: string): string {
  const [first = '', ...lines] = block.split('\n');
  const [, name = '', where, anchor] = place.exec(first) ?? [];
  const file = path.join(folder, name);
  if (where === undefined) {
    expect(existsSync(file), name).toBe(false);
    writeFileSync(file, `${lines.join('\n')}\n`);
    return name;
  }
  const { imports = [], code = [] } = Object.groupBy(lines, (line) => (/^import /.test(line) ? 'imports' : 'code'));
  const text = readFileSync(file, 'utf8').split('\n');
  const at = anchor === undefined ? text.length : text.findIndex((line) => line.trim().startsWith(anchor)) + 1;
  expect(at, `${name} has no line that starts with ${anchor}`).toBeGreaterThan(0);
  text.splice(at, 0, ...code);
  text.splice(
    text.findIndex((line) => line.startsWith('import ')),
    0,
    ...imports,
  );
  writeFileSync(file, text.join('\n'));
  return name;
}

/** The blocks of code of a text in Markdown that name their file. */
const blocksOf = (markdown: string) =>
  [...markdown.matchAll(/^( *)```\w+\n( *\/\/ [\s\S]*?)\n *```$/gm)].map(([, indent = '', block = '']) =>
    block.replaceAll(new RegExp(`^${indent}`, 'gm'), ''),
  );

const contributing = readFileSync(`${projectFolder}CONTRIBUTING.md`, 'utf8');
const [, walkThrough = ''] = contributing.split('## How to add an operation');

const testOf = (name: string, method: string, target: string, body: string, answer: string) => `
\`\`\`ts
// test/quick/behaviour/${name}.test.ts
/** Tests of ${method} ${target}. */
import { expect, test } from 'vitest';
import { startApp } from '../../support/app.ts';

test('${method} ${target}', async () => {
  const { add, call } = await startApp();
  await add({ name: 'Biscuit', categoryId: 7 });
  const { json } = await call('${method}', '${target}', { body: ${body} });
  expect(json).toMatchObject(${answer});
});
\`\`\`

\`\`\`md
// CHANGELOG.md, after \`### Added\`
- \`${method} ${target}\`.
\`\`\`
`;

/** A POST that reads and writes. */
const copyPet = `
\`\`\`ts
// src/core/pets.ts, at the end
export const PetToCopy = Type.Object(
  {
    petId: {
      ...Int64({ description: 'Identifier of the animal to copy.', examples: [1] }),
      minimum: 1,
      maximum: Number.MAX_SAFE_INTEGER,
    },
  },
  { title: 'PetToCopy', description: 'Names an animal.', additionalProperties: false },
);
\`\`\`

\`\`\`ts
// src/pets/routes.ts, at the end
import { PetToCopy } from '../core/pets.ts';
import { readJson } from '../core/int64.ts';

/** Adds POST at \`url\`. */
function copyPet(app: App, url: string): void {
  const { base, shares, store } = app;
  app.post(
    url,
    {
      onRequest: requireScope('pets:write'),
      schema: { body: PetToCopy },
      config: {
        operation: {
          operationId: 'copyPet',
          tags: ['Pets'],
          summary: 'Copy an animal',
          description: 'Adds an animal with the fields of another.',
          scope: 'pets:write',
          success: { status: 201, schema: Pet, description: 'The copy.', headers: ['Location'] },
          errors: [...bodyErrors, 'unsupported_media_type', 'pet_not_found'],
          examples: {
            copy: { summary: 'A copy', body: { petId: 1 }, answer: { ...biscuit, id: 4 } },
            pet_not_found: { summary: 'No animal has this id', body: { petId: 404 } },
          },
        },
      },
    },
    async (request, reply) => {
      const addition = await shares.during(request.record.holder, 'work', async () => {
        const { pet: found } = await store.pets.find((request.body as { petId: bigint }).petId);
        if (found === undefined) throw new ApiError('pet_not_found');
        const { id: _, ...pet } = readJson(Buffer.from(found)) as NewPet & { id: bigint };
        return store.pets.add(pet, undefined, keyOf(request).id);
      });
      if (addition.outcome === 'reused') throw new ApiError('idempotency_key_reused');
      if (addition.outcome !== 'added' && addition.outcome !== 'replayed') throw rejectedKey(addition.outcome);
      sendOutcome(reply, 201, addition.pet, linesOf(['location', \`\${base}/pets/\${addition.id}\`]));
    },
  );
}
\`\`\`

\`\`\`ts
// src/pets/routes.ts, after \`createPet(app\`
copyPet(app, '/pets/copies');
\`\`\`
${testOf('copyPet', 'POST', '/v1/pets/copies', '{ petId: 1 }', "{ id: 2, name: 'Biscuit' }")}`;

/** A deprecated GET with a parameter in its path. */
const oldestPets = `
\`\`\`ts
// src/pets/routes.ts, at the end
const OldestParams = Type.Object({ status: { ...PetStatus, description: 'Their status.' } });

/** Adds GET at \`url\`, which ends in \`:status\`. */
function oldestPets(app: App, url: string): void {
  const { base, store } = app;
  app.get(
    url,
    {
      onRequest: [refuseAfterSunset(app.removed), requireScope('pets:read')],
      schema: { params: OldestParams },
      config: {
        headers: linesOf(Object.entries(deprecationHeaders(base, 'oldestPets')).flat()),
        operation: {
          operationId: 'oldestPets',
          tags: ['Pets'],
          summary: 'List the oldest animals',
          description: 'Use GET /pets instead.',
          scope: 'pets:read',
          sunset,
          success: { status: 200, schema: Pets, description: 'At most one animal.' },
          errors: ['invalid_url', 'operation_removed'],
          examples: { sold: { summary: 'Sold', parameters: { status: 'sold' }, answer: [crumb] } },
        },
      },
    },
    (request, reply) =>
      sendRead(reply, async () => {
        const { pets: found } = await store.pets.list({ limit: 1, status: request.params.status, after: 0n });
        return render(\`[\${found.join()}]\`);
      }),
  );
}
\`\`\`

\`\`\`ts
// src/pets/routes.ts, after \`createPet(app\`
oldestPets(app, '/pets/oldest/:status');
\`\`\`
${testOf('oldestPets', 'GET', '/v1/pets/oldest/available', 'undefined', '[{ id: 1 }]')}`;

/** Runs a command in the copy. */
async function run(folder: string, file: string, ...args: string[]): Promise<void> {
  const env = { HOME: process.env.HOME, npm_config_update_notifier: 'false' };
  const { code, stdout, stderr } = await launch(file, args, { folder, env }).end();
  expect(code, `${args.join(' ')}\n${stdout}${stderr}`).toBe(0);
}

/** Calls the operations of the server, and validates the responses with the schemas of the document. */
async function callAll(server: Server, document: object): Promise<void> {
  const key = await server.firstKey();
  const ajv = new Ajv2020({ strict: false, allErrors: true });
  formats.default(ajv);
  ajv.addSchema(document, 'document');
  const check = (schema: string, body: unknown) => {
    const validate = ajv.compile({ $ref: `document#/components/schemas/${schema}` });
    expect(validate(body), ajv.errorsText(validate.errors)).toBe(true);
  };
  await server.call(key, 'POST', '/v1/pets', { name: 'Biscuit', categoryId: 7, status: 'sold' });
  const copied = await server.call(key, 'POST', '/v1/pets/copies', { petId: 1 });
  expect([copied.status, copied.json.id]).toEqual([201, 2]);
  check('Pet', copied.json);
  const counted = await server.call(key, 'GET', '/v1/pets/count');
  expect([counted.status, counted.json]).toEqual([200, { available: 0, pending: 0, sold: 2 }]);
  check('PetCounts', counted.json);
  const oldest = await server.call(key, 'GET', '/v1/pets/oldest/sold');
  expect([oldest.status, oldest.json.length, oldest.headers.get('sunset')]).toEqual([
    200,
    1,
    'Thu, 05 Dec 2030 00:00:00 GMT',
  ]);
  check('Pets', oldest.json);
  for (const [target, allow] of [
    ['/v1/pets/count', 'GET, HEAD, OPTIONS'],
    ['/v1/pets/copies', 'POST, OPTIONS'],
    ['/v1/pets/oldest/sold', 'GET, HEAD, OPTIONS'],
  ] as const) {
    const refused = await server.call(key, 'DELETE', target);
    expect([refused.status, refused.headers.get('allow')]).toEqual([405, allow]);
  }
}

const node = process.execPath;

test('a GET, a POST and a deprecated GET are five files by hand each at most, and everything else follows', {
  timeout: patientMs,
}, async () => {
  const folder = copyProject();
  for (const [name, markdown] of Object.entries({ countPets: walkThrough, copyPet, oldestPets })) {
    const files = new Set(blocksOf(markdown).map((block) => addBlock(folder, block)));
    figure(`${name}: ${files.size} files by hand (${[...files].join(', ')})`);
    expect(files.size).toBeGreaterThan(2);
    expect(files.size).toBeLessThanOrEqual(5);
  }
  await run(folder, 'npm', 'run', 'format');
  // Without a network, only the types of the client stay as they were.
  await run(folder, 'npm', 'run', 'generate').catch((error: Error) =>
    expect(error.message).toContain('with a network'),
  );
  // Lints the documents with Redocly, too.
  await run(folder, 'npm', 'run', 'check');
  const vitest = [`${projectFolder}node_modules/vitest/vitest.mjs`, 'run', '--project', 'quick'];
  const tests = ['countPets', 'copyPet', 'oldestPets'].map((name) => `test/quick/behaviour/${name}.test.ts`);
  await run(folder, node, ...vitest, ...tests, 'test/quick/docs/openapi', 'test/quick/docs/reference-page');
  const full = ['--project', 'full', 'test/full/docs/openapi-lint', 'test/full/behaviour/matrix', '--testNamePattern'];
  await run(folder, node, ...vitest, ...full, 'Spectral|the table has every route');
  const document = parse(readFileSync(path.join(folder, 'openapi.yaml'), 'utf8'));
  await callAll(await startServer({ source: folder }), document);
});
