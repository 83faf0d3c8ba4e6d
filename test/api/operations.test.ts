/** Tests which answer each request for an operation gets: on pets, and on messages. */
import { describe, expect, test } from 'vitest';
import { startApp, type TestApp } from '../support/app.ts';
import { follow } from '../support/links.ts';
import { engine, runSql, textRows } from '../support/store.ts';

type Request = [line: string, options?: Parameters<TestApp['call']>[2]];

const biscuit = { name: 'Biscuit', categoryId: 7 };
const sunset = new Date('2030-12-05T00:00:00Z');
const int64s = ['9007199254740993', '9223372036854775807', '-9223372036854775808', '0', '-1'];
const retry = { 'idempotency-key': 'first-try' };

const numbers = (count: number) => Array.from(Array(count), (_, index) => index + 1);
const ids = (pets: { id: number }[]) => pets.map(({ id }) => id);

const get = (target: string, ...values: string[]) => values.map((value): Request => [`GET ${target}${value}`]);
const post = (...bodies: unknown[]) => bodies.map((body): Request => ['POST /v1/pets', { body }]);
/** A pet with this field, for each of its JSON values. */
const field = (name: string, ...values: string[]) =>
  post(
    ...values.map((value) => {
      const fields = Object.entries({ name: '"x"', categoryId: '1', [name]: value });
      return `{${fields.map(([key, json]) => `"${key}":${json}`).join()}}`;
    }),
  );
const message = (...bodies: string[]) => bodies.map((body): Request => ['POST /quickstart/messages', { body }]);

const noInteger = 'must be an integer from -9223372036854775808 to 9223372036854775807.';
const noName = 'name must be a string of 1 to 1,000 characters, without NUL and without lone surrogates.';
const noStatus = 'status must be one of available, pending, sold.';
const noCursor = 'cursor must be copied unchanged from the Link header of a list response.';
const noKey = 'Idempotency-Key must be 1 to 255 visible ASCII characters, given once';
const noMessage = 'message must be a string without NUL and without lone surrogates.';

const unknownFields = Object.fromEntries(numbers(30).map((at) => [`x${at}`, 1]));

/** The beginning of an answer, and the requests that get it. What HTTP itself refuses is in http/framings.test.ts. */
const refused: [answer: string, requests: Request[]][] = [
  [
    `400 invalid_body: categoryId ${noInteger}`,
    field(
      'categoryId',
      '9223372036854775808',
      '-9223372036854775809',
      '1e999999999',
      '1.5',
      '9223372036854775807.5',
      '9007199254740991.4',
      '1.00000000000000000001',
      '"1"',
      'null',
      '{}',
      `1${'0'.repeat(60_000)}1`,
    ),
  ],
  [
    `400 invalid_body: ${noName}`,
    [
      ...field('name', '""', '1', 'null', '"a\\u0000b"', '"\\ud800"', '"\\udc00\\ud800"'),
      ...['x', '\u{1f408}'].flatMap((character) => field('name', JSON.stringify(character.repeat(1001)))),
    ],
  ],
  [`400 invalid_body: ${noStatus}`, field('status', '"Sold"', 'null')],
  ...['id', '__proto__'].map((name): [string, Request[]] => [
    `400 invalid_body: "${name}" is not a known field.`,
    field(name, '1'),
  ]),
  ['400 invalid_body: name is required; categoryId is required.', post('{}')],
  ['400 invalid_body: The body must be a JSON object.', post('[]', 'null')],
  ['400 invalid_body: The body is missing.', [...post(''), ['POST /v1/pets'], ...message('')]],
  [
    `400 invalid_body: ${noName.slice(0, -1)}; categoryId is required; "x1" is not a known field; `,
    post({ ...unknownFields, name: '' }),
  ],
  [`400 invalid_body: ${noMessage}`, message('{"message":1}', '{"message":"a\\u0000"}', '{"message":"\\ud800"}')],
  [
    '400 invalid_body: Send the header Content-Type: application/json',
    [['POST /quickstart/messages', { body: '{"message":"a"}', type: 'text/plain' }]],
  ],
  ['400 invalid_json: The body is not valid JSON: ', post('{', '{"name":"x","categoryId":01}')],
  [
    '400 invalid_parameter: limit must be an integer from 1 to 100.',
    get('/v1/pets?limit=', '0', '101', '-1', '1.0', '01', '%2B1', ''),
  ],
  ['400 invalid_parameter: limit is given more than once.', get('/v1/pets?', 'limit=1&limit=2')],
  ['400 invalid_parameter: "__proto__" is not a known query parameter.', get('/v1/pets?', '__proto__=1')],
  [`400 invalid_parameter: ${noStatus}`, get('/v1/pets?status=', '', 'Sold')],
  [
    `400 invalid_parameter: "${'x'.repeat(64)}…" is not a known query parameter.`,
    get(`/v1/pets?${'x'.repeat(80)}`, '=1'),
  ],
  [
    `400 invalid_parameter: limit must be an integer from 1 to 100; ${noStatus.slice(0, -1)}; ${noCursor.slice(0, -1)}; "page" is not`,
    get('/v1/pets?', 'limit=x&status=y&cursor=z&page=1'),
  ],
  [
    '400 invalid_body: name is required; categoryId is required.',
    [['POST /v1/pets?dry=1', { body: {}, headers: { 'idempotency-key': 'a b' } }]],
  ],
  [
    '400 invalid_parameter: "dry" is not a known query parameter.',
    [['POST /v1/pets?dry=1', { body: biscuit, headers: { 'idempotency-key': 'a b' } }]],
  ],
  [
    `400 invalid_parameter: ${noKey}.`,
    ['', 'a b', '\xe9', 'x'.repeat(256)].map((key) => [
      'POST /v1/pets',
      { body: biscuit, headers: { 'idempotency-key': key } },
    ]),
  ],
  [
    `400 invalid_parameter: petId ${noInteger}`,
    get('/v1/pets/', 'x', '01', '+1', '1e3', '9223372036854775808', '1'.repeat(4000), '1%00'),
  ],
  [
    `400 invalid_cursor: ${noCursor}`,
    get(
      '/v1/pets?cursor=',
      '',
      'x',
      'YWZ0ZXI6',
      'YWZ0ZXI6LTE',
      'YWZ0ZXI6MQ%3D%3D',
      'YWZ0ZXI6MR',
      'YWZ0ZXI6MDE',
      Buffer.from('after:99999999999999999').toString('base64url'),
    ),
  ],
  // Not every fault is the cursor's.
  ['400 invalid_parameter: ', get('/v1/pets?cursor=x&', 'limit=0', 'dry=1')],
  ['404 pet_not_found: There is no animal with this id.', get('/v1/pets/', ...int64s, '-0', '%31')],
  [
    '404 route_not_found: There is nothing at this path.',
    ['/v1', '/v1/Pets', '/v1/pets/1/x', '/v1//pets'].flatMap((path): Request[] => [[`GET ${path}`], [`POST ${path}`]]),
  ],
  [
    '405 method_not_allowed: This path does not support this method; the Allow header lists those it supports.',
    [['PUT /v1/pets']],
  ],
  ['413 payload_too_large: The body is larger than 65,536 bytes.', post('{}'.padEnd(65_537))],
  ['414 uri_too_long: The URL is longer than 8,192 bytes.', get('/', 'x'.repeat(8192))],
  ['501 not_implemented: This operation is a placeholder and is not implemented.', get('/v1/store/orders', '')],
];

test('a request that breaks a rule gets its error, and changes nothing', async () => {
  const { call, log, store } = await startApp();
  for (const [answer, requests] of refused)
    for (const [line, options] of requests) {
      const [method, target] = line.split(' ') as [string, string];
      const { status, json } = await call(method, target, options);
      const found = `${status} ${json.code}: ${json.message}`;
      expect.soft(found.slice(0, answer.length), `${line} ${JSON.stringify(options)}`.slice(0, 500)).toBe(answer);
      expect.soft(found.length).toBeLessThan(1000);
    }
  expect((await store.pets.list({ limit: 1, after: 0n })).pets).toEqual([]);
  // A client's error must not alert the operator.
  expect(log()).not.toContain('"level":50');
});

describe('POST /v1/pets', () => {
  test('returns every digit of categoryId, however it is written', async () => {
    const { call, get } = await startApp();
    const written = [
      ...int64s.map((integer) => [integer, integer]),
      ['900719925474099.1e1', '9007199254740991'],
      // Of two members of one name, the last counts.
      ['1,"categoryId":9007199254740993', '9007199254740993'],
    ];
    for (const [index, [text, integer]] of written.entries()) {
      const created = await call('POST', '/v1/pets', { body: `{"name":"x","categoryId":${text}}` });
      const pet = `{"id":${index + 1},"name":"x","categoryId":${integer},"status":"available"}`;
      expect(created, text).toMatchObject({ status: 201, text: pet, headers: { location: `/v1/pets/${index + 1}` } });
      expect((await get(`/v1/pets/${index + 1}`)).text).toBe(pet);
      expect((await get('/v1/pets')).text).toContain(pet);
    }
  });

  test('returns 1,000 of any character as the name, from a body of up to 64 KiB', async () => {
    const { call } = await startApp();
    for (const characters of ['x', 'é', '\u{1f408}', '\u0001', '"\\/\n\u2028\ufeff\uffff{}']) {
      const name = [...characters.repeat(1000)].slice(0, 1000).join('');
      const body = JSON.stringify({ ...biscuit, name, status: 'pending' });
      const padded = body.padEnd(65_536 - Buffer.byteLength(body) + body.length);
      const { status, headers } = await call('POST', '/v1/pets', { body: padded });
      expect(status).toBe(201);
      expect((await call('GET', `${headers.location}`)).json).toMatchObject({ ...biscuit, name, status: 'pending' });
    }
  });
});

describe('POST /v1/pets with Idempotency-Key', () => {
  test('replays the 201 with Idempotent-Replayed and adds one pet, also to requests at once', async () => {
    const { add, get } = await startApp();
    // Not remembered, because it is rejected.
    expect((await add({ name: '' }, retry)).status).toBe(400);
    const answers = await Promise.all(numbers(20).map(() => add(biscuit, retry)));
    answers.push(await add({ status: 'available', categoryId: 7, name: 'Biscuit' }, retry));
    const summaries = answers.map(({ status, text, headers }) => `${status} ${text} ${headers.location}`);
    expect(new Set(summaries)).toEqual(
      new Set(['201 {"id":1,"name":"Biscuit","categoryId":7,"status":"available"} /v1/pets/1']),
    );
    expect(answers.filter(({ headers }) => headers['idempotent-replayed'] === undefined)).toHaveLength(1);
    expect((await get('/v1/pets')).json).toHaveLength(1);
  });

  test('returns 422 idempotency_key_reused for a different body', async () => {
    const { add, get } = await startApp();
    await add(biscuit, retry);
    for (const change of [{ name: 'Other' }, { categoryId: 8 }, { status: 'sold' }])
      expect((await add({ ...biscuit, ...change }, retry)).json, JSON.stringify(change)).toMatchObject({
        code: 'idempotency_key_reused',
        status: 422,
      });
    expect((await get('/v1/pets')).json).toHaveLength(1);
  });

  test('adds another pet under another key, for another account, and after 24 hours', async () => {
    const { add, call, store, newKey, setTime, databaseUrl } = await startApp();
    const start = sunset.getTime();
    setTime(sunset);
    await add(biscuit, retry);
    await store.accounts.addAccount('others');
    const idFor = async (account: string) => {
      const { key } = await newKey({ account });
      return (await call('POST', '/v1/pets', { key, body: biscuit, headers: retry })).json.id;
    };
    expect([await idFor('tests'), await idFor('others')]).toEqual([1, 2]);
    const visible = String.fromCharCode(...numbers(94).map((at) => 32 + at));
    expect((await add(biscuit, { 'idempotency-key': visible.padEnd(255, 'x') })).json.id).toBe(3);
    setTime(new Date(start + 24 * 3600_000 - 1));
    expect((await add(biscuit, retry)).json.id).toBe(1);
    await Promise.all(numbers(30).map((at) => add(biscuit, { 'idempotency-key': `old-${at}` })));
    setTime(new Date(start + 2 * 24 * 3600_000));
    expect((await add({ name: 'Anew', categoryId: 1 }, retry)).json).toMatchObject({ id: 34, name: 'Anew' });
    const kept = async () => Number((await textRows(databaseUrl, 'SELECT count(*) AS n FROM idempotency'))[0]?.n);
    expect(await kept()).toBe(33);
    setTime(new Date(start + 4 * 24 * 3600_000));
    expect((await add(biscuit, { 'idempotency-key': 'last' })).json.id).toBe(35);
    // Each new one deletes ten that are 72 hours old.
    expect(await kept()).toBe(24);
  });
});

describe('GET /v1/pets', () => {
  test('returns pets in ascending order of id: 20 unless limit is given', async () => {
    const { get, store } = await startApp();
    expect((await get('/v1/pets')).text).toBe('[]');
    await Promise.all(numbers(101).map((id) => store.pets.add({ name: 'x', categoryId: BigInt(id), status: 'sold' })));
    expect(ids((await get('/v1/pets')).json)).toEqual(numbers(20));
    expect(ids((await get('/v1/pets?limit=100')).json)).toEqual(numbers(100));
  });

  test('returns animals of an earlier release, whose names may be longer than the limit', async () => {
    const app = await startApp();
    const longest = 'x'.repeat(65_000);
    // On PostgreSQL, such rows have no JSON.
    const role = (name: string) => (engine === 'SQLite' ? '' : `SET session_replication_role = ${name};`);
    await runSql(
      app.databaseUrl,
      `${role('replica')} WITH RECURSIVE number (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM number WHERE i < 120)
       INSERT INTO pet (id, name, category_id, status) SELECT i, i || '${longest}', 7, 'sold' FROM number; ${role('DEFAULT')}`,
    );
    for (const path of ['/v1/pets?limit=100', '/v1/pets?limit=100&status=sold']) {
      const found = (await follow(app, path)).flatMap(({ json }) => json);
      expect(found.map(({ name }) => name)).toEqual(numbers(120).map((id) => `${id}${longest}`));
    }
    expect((await app.get('/v1/pets/120')).json.name).toBe(`120${longest}`);
  });
});

describe('GET /v1/pets/{petId}', () => {
  test('is removed on 5 December 2030, when POST stops sending Location, if the sunset is enforced', async () => {
    const { add, call, get, setTime } = await startApp();
    setTime(new Date(sunset.getTime() - 1));
    expect((await add(biscuit)).headers.location).toBe('/v1/pets/1');
    expect((await get('/v1/pets/1')).status).toBe(200);
    setTime(sunset);
    const answers: (string | undefined)[] = [];
    for (const line of ['GET /v1/pets/1', 'GET /v1/pets/x', 'OPTIONS /v1/pets/1', 'PUT /v1/pets/1']) {
      const { status, json, headers } = await call(...(line.split(' ') as [string, string]));
      answers.push(`${status} ${json?.code} ${headers.allow}`);
    }
    expect(answers).toEqual([
      ...Array(2).fill('410 operation_removed undefined'),
      '204 undefined OPTIONS',
      '405 method_not_allowed OPTIONS',
    ]);
    expect((await get('/v1/pets/1', { key: null })).status).toBe(401);
    expect((await add(biscuit)).headers.location).toBeUndefined();

    const lasting = await startApp({ enforceSunset: false });
    lasting.setTime(sunset);
    const { location } = (await lasting.add(biscuit)).headers;
    expect((await lasting.get(`${location}`)).status).toBe(200);
  });
});

describe('a precondition', () => {
  test('lets GET and HEAD pass: If-Match by strong comparison, and before If-None-Match', async () => {
    const app = await startApp();
    await app.add(biscuit);
    for (const path of ['/v1/pets', '/openapi.json']) {
      const { etag } = (await app.get(path)).headers as { etag: string };
      const expectEach = async (name: string, values: string[], status: number) => {
        for (const value of values)
          for (const method of ['GET', 'HEAD'])
            expect((await app.call(method, path, { headers: { [name]: value } })).status, `${path} ${value}`).toBe(
              status,
            );
      };
      const listed = [`"other", ${etag}`, `"a,b",${etag} , "c"`];
      const others = ['"other"', etag.slice(1, -1), '', `w/${etag}`, `${etag}x`];
      await expectEach('if-match', ['*', etag, ...listed], 200);
      await expectEach('if-match', [...others, `W/${etag}`], 412);
      await expectEach('if-none-match', ['*', etag, ...listed, `"a,b",W/${etag} , "c"`], 304);
      await expectEach('if-none-match', [...others, '*, "a"'], 200);
      const both = { 'if-match': '"other"', 'if-none-match': etag };
      expect((await app.get(path, { headers: both })).status).toBe(412);
    }
  });

  test('that does not hold lets POST change nothing', async () => {
    let count = 1;
    const app = await startApp();
    await app.add(biscuit, retry);
    const { etag } = (await app.get('/v1/pets')).headers as { etag: string };
    for (const [headers, status] of [
      [{ 'if-none-match': '*' }, 412],
      // It is the tag of one page.
      [{ 'if-match': etag }, 412],
      [{ ...retry, 'if-none-match': '*' }, 412],
      [{ 'if-match': '*' }, 201],
      [{ 'if-none-match': '"other"' }, 201],
    ] as const) {
      const answer = await app.add(biscuit, headers);
      expect([answer.status, answer.json.code], JSON.stringify(headers)).toEqual([
        status,
        status === 412 ? 'precondition_failed' : undefined,
      ]);
      if (status === 201) count += 1;
      expect((await app.get('/v1/pets')).json).toHaveLength(count);
    }
    // The response would be an error without it.
    const headers = { 'if-match': '"other"' };
    expect((await app.call('POST', '/v1/pets', { key: null, body: biscuit, headers })).status).toBe(401);
    expect((await app.add({}, headers)).status).toBe(400);
    // Nothing can be read at this path.
    const send = (headers: Record<string, string>) =>
      app.call('POST', '/quickstart/messages', { body: { message: 'Hello' }, headers });
    expect((await send({ 'if-match': '*' })).status).toBe(412);
    expect((await send({ 'if-none-match': '*' })).status).toBe(202);
  });
});
