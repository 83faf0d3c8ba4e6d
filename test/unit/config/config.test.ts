/** Tests of reading the settings from the environment, and of .env.example. */
import { writeFileSync } from 'node:fs';
import { parseEnv } from 'node:util';
import { describe, expect, test } from 'vitest';
import { type Config, ConfigError, readConfig, settings, signUpOf } from '../../../src/config.ts';
import { closest } from '../../../src/core/closest.ts';
import { readEntries } from '../../../src/dotenv.ts';
import { temporaryFolder } from '../../support/app.ts';
import { runCli } from '../../support/process.ts';
import { read } from '../../support/project.ts';

const defaults: Config = {
  DEPLOYMENT: 'development',
  HOST: '127.0.0.1',
  PORT: 3000,
  DATABASE_URL: 'sqlite:./data/animal-store.db',
  LOG_LEVEL: 'info',
  QUICKSTART_BASE_PATH: '/quickstart',
  SUNSET_ENFORCE: 'true',
  OPS_HOST: '127.0.0.1',
  OPS_PORT: '9464',
  LAME_DUCK_MS: 0,
  MAX_CONNECTIONS: 1000,
};

function errorOf(env: NodeJS.ProcessEnv): string {
  try {
    readConfig(env);
  } catch (error) {
    expect(error).toBeInstanceOf(ConfigError);
    return (error as ConfigError).message;
  }
  throw new Error(`${JSON.stringify(env)} was accepted`);
}

describe('readConfig', () => {
  const empty = Object.fromEntries(Object.keys(settings.properties).map((name) => [name, '']));

  test.each([[{}], [empty], [{ PATH: '/usr/bin', port: '1' }]])('returns every default for %j', (env) => {
    expect(readConfig(env)).toEqual(defaults);
  });

  test.for<readonly [name: keyof Config, value: string]>([
    ['BASE_URL', 'http://[::1]:8080/animals/store/v1'],
    ['BASE_URL', 'http://animal_store:3000/v1'],
    ['DATABASE_URL', 'sqlite:/var/lib/animal store/a.db'],
    ['DATABASE_URL', 'sqlite:/var/lib/100% of #1/a&b=c.db'],
    ['DATABASE_URL', 'postgres://user:pass%40word@db:5433/animals?sslmode=verify-full'],
    ['QUICKSTART_BASE_PATH', 'off'],
    ['QUICKSTART_BASE_PATH', '/v11/quick-start'],
    ['OPS_PORT', 'off'],
    ['OPS_PORT', '65535'],
    ['TRUST_PROXY', '10.0.0.0/8,::1,192.168.0.1/32,FD00::/8,2000::/3,0.0.0.0/1,::ffff:10.0.0.0/104'],
    ['ALLOWED_HOSTS', 'animals.example.com,Proxy_1,192.0.2.1,[2001:db8::1]'],
    ['CORS_ORIGINS', 'https://app.example.com,http://localhost:5173,http://[::1]:80'],
    ['CORS_ORIGINS', 'capacitor://localhost,tauri://localhost,chrome-extension://abcdefghijklmnopabcdefghijklmnop'],
  ])('accepts %s=%s', ([name, value]) => {
    expect(readConfig({ [name]: value })).toEqual({ ...defaults, [name]: value });
  });

  test.for<[name: keyof Config, least: number, most: number]>([
    ['PORT', 0, 65_535],
    ['LAME_DUCK_MS', 0, 600_000],
    ['RATE_LIMIT', 1, 1_000_000],
  ])('accepts for %s only a whole number from %d to %d', ([name, least, most]) => {
    for (const value of [least, least + 1, most]) expect(readConfig({ [name]: String(value) })[name]).toBe(value);
    for (const value of [least - 1, most + 1, 1.5, `0${least}`, 'x'])
      expect(errorOf({ [name]: String(value) })).toBe(
        `${name} must be a whole number from ${least} to ${most}, not ${value} (the environment).`,
      );
  });

  test.for<[name: keyof Config, values: string[]]>([
    ['DEPLOYMENT', ['Production', ' production']],
    ['PORT', [' ', '0x10', '1e3', '+5', 'Infinity']],
    [
      'BASE_URL',
      [
        '/v1',
        'ftp://example.com/v1',
        'https://example.com',
        'https://example.com/v1/',
        'https://example.com//v1',
        'https://example.com/v1?a=/v1',
        'https://example.com/#/v1',
        'https://user@example.com/v1',
        'http://[/v1',
        'https://example.com/>; rel="next"/v1',
        'https://exámple.com/v1',
        'https://example.com\r\nX: /v1',
      ],
    ],
    [
      'DATABASE_URL',
      [
        'sqlite: ',
        'sqlite::memory:',
        'sqlite:~/a.db',
        './a.db',
        'postgres:///a',
        'postgres://host',
        'mysql://host/a',
        'sqlite:/d/c.db?mode=rwc',
        'sqlite:/d/c.db?connection_limit=1',
        'sqlite:my%20d.db',
        'sqlite:/d%2Fc.db',
        'sqlite:"/d/c.db"',
        "sqlite:'/d/c.db'",
        '"sqlite:/d/c.db"',
        "sqlite:/d/bob's.db",
      ],
    ],
    ['LOG_LEVEL', ['INFO']],
    ['QUICKSTART_BASE_PATH', ['on', '/', '/a/', '/v1', '/v1/quickstart', '/:a', '/*', '/a?b']],
    ['SIGN_UP', ['Open']],
    ['SUNSET_ENFORCE', ['1']],
    ['OPS_PORT', ['on', 'off1', '-1', '01', '65536', '65540', '65600', '66000', '70000', '100000', '1.5']],
    [
      'TRUST_PROXY',
      [
        'true',
        '10.0.0.0/',
        '10.0.0.0/x',
        '10.0.0.1,',
        '10.0.0.1, ::1',
        'proxy.example',
        'fe80::1%eth0',
        '10.0.0.0/33',
        '10.0.0.0/0',
        '::/129',
        '::/0',
        '10.0.0.0/8/8',
        '::1,10.0.0.0/33',
        '010.0.0.1',
        '::1/64',
        '8::/0',
        '1::/15',
        '::ffff:0:0/96',
        '::/1',
      ],
    ],
    [
      'ALLOWED_HOSTS',
      ['*', 'a.example:80', 'https://a.example', 'a.example,', '::1', '[::1]:80', '1.2.3.256', 'exámple.com'],
    ],
    [
      'CORS_ORIGINS',
      [
        '*',
        'null',
        'a.example',
        'file:///',
        'https://a.example/',
        'https://a.example,',
        'https://a.example,https://[',
        'https://exámple.com',
      ],
    ],
  ])('of %s reports the values %j', ([name, values]) => {
    const { title } = settings.properties[name];
    for (const value of values) {
      const shown =
        /^\w+:\/\//.test(value) && name === 'DATABASE_URL' ? '' : `, not ${JSON.stringify(value).slice(1, -1)}`;
      expect(errorOf({ [name]: value }), value).toBe(`${name} must be ${title}${shown} (the environment).`);
    }
  });
});

test('says that the name of a host is written in ASCII', () => {
  for (const name of ['BASE_URL', 'ALLOWED_HOSTS', 'CORS_ORIGINS'])
    expect(errorOf({ [name]: 'https://exámple.com/v1' })).toContain('xn--');
});

describe('.env', () => {
  /** What a command prints that finds this .env; the server prints the same. */
  async function runWith(bytes: string | Buffer): Promise<string> {
    const folder = temporaryFolder();
    writeFileSync(`${folder}/.env`, bytes);
    return (await runCli(['check'], { folder })).stderr.slice('animal-store: '.length, -1);
  }

  const notUtf8 = 'cannot be read: it is not text in UTF-8: save it with that encoding';

  test.for<[what: string, text: string | Buffer, sentence: string]>([
    [
      'a # in a value',
      'A=1 # one\nDATABASE_URL=sqlite:/srv/my#store.db',
      'line 2 has a # in the value of DATABASE_URL, which would begin a comment: put the value in quotes',
    ],
    [
      'a quote that does not close',
      '\nDATABASE_URL="sqlite:a.db\nPORT=1\n',
      'line 2 begins the value of DATABASE_URL with a quote that does not close',
    ],
    ['text behind quotes', "PORT='1'2", 'line 1 has text behind the quotes of PORT'],
    ['a name twice', 'PORT=1\r\n# PORT=3\r\nexport PORT=2', 'line 3 sets PORT again, after line 1: remove one of them'],
    [
      'a tab behind export',
      'export\tPORT=1',
      'line 1 is not read as NAME=value: write PORT at its beginning, with nothing but the value behind the =',
    ],
    [
      'a tab instead of a value',
      'HOST=\t\nPORT=1',
      'line 1 is not read as NAME=value: write HOST at its beginning, with nothing but the value behind the =',
    ],
    ['no =', 'PORT 1', 'line 1 is neither NAME=value nor a comment'],
    ['UTF-16', Buffer.from('\uFEFFDEPLOYMENT=production', 'utf16le'), notUtf8],
    ['UTF-16 without a mark', Buffer.from('DEPLOYMENT=production', 'utf16le'), notUtf8],
    ['Latin-1', Buffer.from('HOST=caf\xe9', 'latin1'), notUtf8],
  ])('with %s is refused', async ([, text, sentence]) => {
    expect(await runWith(text)).toBe(`.env ${sentence}.`);
  });

  test('a wrong value is shown with its line, but not one that may have a password', async () => {
    expect(await runWith('\uFEFFRATE_LIMIT=0x10\r\nDATABASE_URL=mysql://me:secret@host/a\r\nLOG_LEVEL="a\nb"\n')).toBe(
      [
        'DATABASE_URL must be sqlite: and the path of a file, without ~, quotes, ? or percent-encoding, or postgres://user:password@host:port/database (.env line 2).',
        'LOG_LEVEL must be one of fatal, error, warn, info, debug, trace, silent, not a\\nb (.env line 3).',
        'RATE_LIMIT must be a whole number from 1 to 1000000, not 0x10 (.env line 1).',
      ].join('\nanimal-store: '),
    );
  });

  test('comments, quotes and values of several lines have the values that Node reads', () => {
    const text = 'export A = x # c\nB="1 # 2" # c\n\n#C=\nD=\'a\nb=c\'\nE= # c\nF=`"`\nPG.x-1=\n';
    const entries = [...readEntries(text)].map(([name, { value, line }]) => [name, value, line]);
    expect(entries).toEqual([
      ['A', 'x', 1],
      ['B', '1 # 2', 2],
      ['D', 'a\nb=c', 5],
      ['E', '', 7],
      ['F', '"', 8],
      ['PG.x-1', '', 9],
    ]);
    expect(Object.fromEntries(entries)).toEqual({ ...parseEnv(text) });
  });

  test.for([
    ['PROT', 'PORT'],
    ['LOG_LVEL', 'LOG_LEVEL'],
    ['DATABASEURL', 'DATABASE_URL'],
    ['CORS_ORIGIN', 'CORS_ORIGINS'],
    ['toString', undefined],
    ['WORKERS', undefined],
  ])('of %s, %s is meant', ([word, meant]) => {
    expect(closest(word as string, Object.keys(settings.properties))).toBe(meant);
  });
});

describe('signUpOf', () => {
  test.for([
    ['staging', undefined, 'open'],
    ['production', '', 'invitation'],
    ['production', 'open', 'open'],
  ])('DEPLOYMENT=%s and SIGN_UP=%s: %s', ([DEPLOYMENT, SIGN_UP, effective]) => {
    expect(signUpOf(readConfig({ DEPLOYMENT, SIGN_UP }))).toBe(effective);
  });
});

test('.env.example changes nothing if every setting in it is uncommented', () => {
  const example = read('.env.example');
  expect(readConfig(parseEnv(example.replaceAll(/^# (?=[A-Z_]+=)/gm, '')))).toEqual(defaults);
});
