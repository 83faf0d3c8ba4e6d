/** The settings: one table of names, allowed values and defaults, and the function that reads them from the environment. */
import { FormatRegistry, type Static, Type } from '@sinclair/typebox';
import { Value } from '@sinclair/typebox/value';

const oneOf = <const Values extends string[]>(values: Values, options: { default?: Values[number] } = {}) =>
  Type.Unsafe<Values[number]>(
    Type.String({ enum: values, pattern: `^(${values.join('|')})$`, title: `one of ${values.join(', ')}`, ...options }),
  );

const wholeNumber = (minimum: number, maximum: number, options: { default?: number; examples?: number[] }) =>
  Type.Integer({ title: `a whole number from ${minimum} to ${maximum}`, minimum, maximum, ...options });

const port = '(0|[1-9]\\d{0,3}|[1-5]\\d{4}|6[0-4]\\d{3}|65[0-4]\\d{2}|655[0-2]\\d|6553[0-5])';
const octet = '(25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)';
const ipv4 = new RegExp(`^${octet}(\\.${octet}){3}$`);

/**
 * Whether a text is an address or a network that does not contain every IPv4 address. 0.0.0.0/0 and ::/0 do, and so does ::1/64, because IPv4 addresses are
 * in ::ffff:0:0/96. No other network that begins with 16 zeros is in use (RFC 4291, section 2.4).
 */
function isNetwork(text: string): boolean {
  const [address = '', bits] = text.split('/');
  const isIPv4 = ipv4.test(address);
  const name = isIPv4 ? '' : URL.parse(`http://[${address}]`)?.hostname;
  if (name === undefined) return false;
  const prefix = Number(bits ?? (isIPv4 ? 32 : 128));
  const first = Number.parseInt(name.slice(1), 16) || 0;
  const least = isIPv4 || first >> Math.max(0, 16 - prefix) > 0 ? 1 : 97;
  return prefix >= least && prefix <= (isIPv4 ? 32 : 128);
}

FormatRegistry.Set('url', URL.canParse);

/** An optional list, separated by commas. `pattern` and `isValid` are for each member. */
function listOf(format: string, title: string, pattern: string, isValid: (text: string) => boolean) {
  FormatRegistry.Set(format, (text) => text.split(',').every((each) => isValid(each)));
  return Type.Optional(Type.String({ title, pattern: `^${pattern}(,${pattern})*$`, format }));
}

/**
 * The part of an SQLite URL after `sqlite:`. It is a path as the system knows it: a query, percent-encoding and quotes would silently name another file. With
 * :memory:, each connection would have its own store.
 */
export const sqlitePath = '(?!:memory:$|~|.*(?:[?"\']|%[0-9A-Fa-f]{2}))\\S(?:.*\\S)?';

export const sqliteTitle = 'sqlite: and the path of a file, without ~, quotes, ? or percent-encoding';

/**
 * docs/settings.md says what each one means. `npm run generate` writes .env.example and the defaults in docs/settings.md. Each title completes the
 * error message "<NAME> must be …"; `examples` are for values that neither the title nor a default shows.
 */
export const settings = Type.Object({
  DEPLOYMENT: oneOf(['development', 'staging', 'production'], { default: 'development' }),
  HOST: Type.String({ title: 'an address', default: '127.0.0.1' }),
  PORT: wholeNumber(0, 65535, { default: 3000 }),
  OPS_HOST: Type.String({ title: 'an address', default: '127.0.0.1' }),
  OPS_PORT: Type.String({
    title: 'off, or a whole number from 0 to 65535',
    pattern: `^(off|${port})$`,
    default: '9464',
  }),
  BASE_URL: Type.Optional(
    Type.String({
      title: 'an http or https address that ends in /v1, without a query, its host in ASCII (xn--…)',
      // Only characters that a header can carry unencoded.
      pattern: '^https?://[A-Za-z0-9._:[\\]-]+(/[A-Za-z0-9._~%-]+)*/v1$',
      format: 'url',
      examples: ['https://animals.example.com/v1'],
    }),
  ),
  ALLOWED_HOSTS: listOf(
    'hosts',
    'host names in ASCII (xn--…) without a port, separated by commas, such as animals.example.com',
    '([A-Za-z0-9._-]+|\\[[0-9A-Fa-f:.]+\\])',
    (text) => URL.canParse(`http://${text}`),
  ),
  DATABASE_URL: Type.String({
    title: `${sqliteTitle}, or postgres://user:password@host:port/database`,
    pattern: `^(sqlite:${sqlitePath}|postgres(ql)?://[^\\s/]+/\\S+)$`,
    default: 'sqlite:./data/animal-store.db',
  }),
  DATABASE_URL_FILE: Type.Optional(
    Type.String({
      title: 'the path of a file',
      examples: ['/run/secrets/database-url'],
    }),
  ),
  LOG_LEVEL: oneOf(['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'], { default: 'info' }),
  QUICKSTART_BASE_PATH: Type.String({
    title: 'off, or a path such as /quickstart that is not below /v1, /docs or /account',
    pattern: '^(?!/(v1|docs|account)(/|$))(off|(/[A-Za-z0-9._~-]+)+)$',
    default: '/quickstart',
  }),
  SIGN_UP: Type.Optional(oneOf(['open', 'invitation', 'off', 'none'])),
  LAME_DUCK_MS: wholeNumber(0, 600_000, { default: 0 }),
  MAX_CONNECTIONS: wholeNumber(1, 100_000, { default: 1000 }),
  RATE_LIMIT: Type.Optional(wholeNumber(1, 1_000_000, { examples: [6000] })),
  TRUST_PROXY: listOf(
    'networks',
    'addresses or networks of proxies, separated by commas, such as 10.0.0.0/8,::1',
    '[0-9A-Fa-f.:]+(/\\d{1,3})?',
    isNetwork,
  ),
  CORS_ORIGINS: listOf(
    'origins',
    'origins in ASCII (xn--…), separated by commas, such as https://app.example.com',
    '[A-Za-z][A-Za-z0-9+.-]*://[A-Za-z0-9._:[\\]-]+',
    URL.canParse,
  ),
  SUNSET_ENFORCE: oneOf(['true', 'false'], { default: 'true' }),
});

export type Config = Static<typeof settings>;

/** Who can create an account: SIGN_UP, or its default for the deployment. */
export function signUpOf({ SIGN_UP, DEPLOYMENT }: Config): NonNullable<Config['SIGN_UP']> {
  return SIGN_UP ?? (DEPLOYMENT === 'production' ? 'invitation' : 'open');
}

/** Invalid settings; the message has one line, a full sentence, per setting. */
export class ConfigError extends Error {
  override name = 'ConfigError';
}

/** Stricter than Number(), which reads " " as 0 and 0x10 as 16, and accepts Infinity. */
function read(name: keyof Config, text: string): string | number {
  if (settings.properties[name].type !== 'integer') return text;
  return /^(0|[1-9]\d*)$/.test(text) ? Number(text) : Number.NaN;
}

const longest = 100;

/** A wrong value for a message; empty if it may contain a password. */
function shown(name: keyof Config, { DATABASE_URL_FILE, [name]: value = '' }: NodeJS.ProcessEnv): string {
  const mayBeSecret = DATABASE_URL_FILE || (!value.startsWith('sqlite:') && /:\/\/|@/.test(value));
  if (name === 'DATABASE_URL' && mayBeSecret) return '';
  const text = JSON.stringify(value).slice(1, -1);
  return `, not ${text.length > longest ? `${text.slice(0, longest)}…` : text}`;
}

/**
 * Reads and checks all settings; an empty value counts as unset. With DATABASE_URL_FILE, DATABASE_URL is the content of that file. Throws ConfigError,
 * which says where each wrong value was read.
 */
export function readConfig(
  env: NodeJS.ProcessEnv,
  sourceOf: (name: string) => string = () => 'the environment',
): Config {
  const names = Object.keys(settings.properties) as (keyof Config)[];
  const given = Object.fromEntries(names.flatMap((name) => (env[name] ? [[name, read(name, env[name])]] : [])));
  const config = Value.Default(settings, given);
  if (Value.Check(settings, config)) return config;
  const wrong = new Set([...Value.Errors(settings, config)].map(({ path }) => path.slice(1) as keyof Config));
  const requirement = (name: keyof Config) =>
    name === 'DATABASE_URL' && env.DATABASE_URL_FILE
      ? 'DATABASE_URL_FILE must name a file whose only line is'
      : `${name} must be`;
  throw new ConfigError(
    [...wrong]
      .map((name) => `${requirement(name)} ${settings.properties[name].title}${shown(name, env)} (${sourceOf(name)}).`)
      .join('\n'),
  );
}
