/** The settings: one table of names, defaults and descriptions, and the function that reads them from the environment. */
import { FormatRegistry, type Static, Type } from '@sinclair/typebox';
import { Value } from '@sinclair/typebox/value';

const oneOf = <const Values extends string[]>(
  values: Values,
  options: { default?: Values[number]; description: string },
) =>
  Type.Unsafe<Values[number]>(
    Type.String({ enum: values, pattern: `^(${values.join('|')})$`, title: `one of ${values.join(', ')}`, ...options }),
  );

const port = '(0|[1-9]\\d{0,3}|[1-5]\\d{4}|6[0-4]\\d{3}|65[0-4]\\d{2}|655[0-2]\\d|6553[0-5])';
const address = '[0-9A-Fa-f.:]+(/\\d{1,3})?';
const octet = '(25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)';
const ipv4 = new RegExp(`^${octet}(\\.${octet}){3}$`);
const hostName = '([A-Za-z0-9._-]+|\\[[0-9A-Fa-f:.]+\\])';
const origin = 'https?://[A-Za-z0-9.:[\\]-]+';

const listOf = (isValid: (text: string) => boolean) => (text: string) => text.split(',').every((each) => isValid(each));

/** Whether a text is an address, or a network whose prefix has at least 1 bit: Fastify's trustProxy refuses 0. */
function isNetwork(text: string): boolean {
  const [address = '', prefix = '1'] = text.split('/');
  const isIPv4 = ipv4.test(address);
  if (!isIPv4 && !URL.canParse(`http://[${address}]`)) return false;
  return Number(prefix) >= 1 && Number(prefix) <= (isIPv4 ? 32 : 128);
}

FormatRegistry.Set('url', URL.canParse);
FormatRegistry.Set('origins', listOf(URL.canParse));
FormatRegistry.Set('networks', listOf(isNetwork));
FormatRegistry.Set(
  'hosts',
  listOf((text) => URL.canParse(`http://${text}`)),
);

/**
 * .env.example and the README's table are written from it (`npm run generate`). Each title completes the error message "<NAME> must be …". A
 * description names the unit of a number; `examples` are for values that neither the title nor a default shows.
 */
export const settings = Type.Object({
  DEPLOYMENT: oneOf(['development', 'staging', 'production'], {
    default: 'development',
    description:
      'Which deployment this process belongs to. API keys of production start with ast_live_, all others with ast_test_.',
  }),
  HOST: Type.String({
    title: 'an address',
    default: '127.0.0.1',
    description: 'Address to listen on. 0.0.0.0 or :: listens on every interface.',
  }),
  PORT: Type.Integer({
    title: 'a whole number from 0 to 65535',
    minimum: 0,
    maximum: 65535,
    default: 3000,
    description: 'Port to listen on. 0 lets the system choose a free one.',
  }),
  OPS_HOST: Type.String({
    title: 'an address',
    default: '127.0.0.1',
    description:
      'Address of the ops port, which serves /livez, /readyz and /metrics without a key. Keep it off the public network.',
  }),
  OPS_PORT: Type.String({
    title: 'off, or a whole number from 0 to 65535',
    pattern: `^(off|${port})$`,
    default: '9464',
    description: 'The ops port. off disables it; 0 lets the system choose a free one.',
  }),
  BASE_URL: Type.Optional(
    Type.String({
      title: 'an http or https address that ends in /v1, without a query',
      // Only characters that a header can carry unencoded: write an internationalized domain name in its ASCII form.
      pattern: '^https?://[A-Za-z0-9.:[\\]-]+(/[A-Za-z0-9._~%-]+)*/v1$',
      format: 'url',
      examples: ['https://animals.example.com/v1'],
      description:
        'Public base address, which ends in /v1 and differs between production and staging. Addresses in responses (Link, Location) start with it. Unset: absolute paths.',
    }),
  ),
  ALLOWED_HOSTS: Type.Optional(
    Type.String({
      title: 'host names without a port, separated by commas, such as animals.example.com',
      pattern: `^${hostName}(,${hostName})*$`,
      format: 'hosts',
      description:
        'Hosts that requests may name, on both ports, besides localhost, IP addresses and the host of BASE_URL; others get 400. Unset: no others if HOST (for the ops port OPS_HOST) is a loopback address, otherwise all.',
    }),
  ),
  DATABASE_URL: Type.String({
    title: 'sqlite: and the path of a file, or postgres://user:password@host:port/database',
    // With :memory:, each SQLite connection would have its own store.
    pattern: '^(sqlite:(?!:memory:$)\\S(.*\\S)?|postgres(ql)?://[^\\s/]+/\\S+)$',
    default: 'sqlite:./data/animal-store.db',
    description:
      'The store: sqlite: and the path of a file, which is created with its folder if it is missing; or postgres://user:password@host:port/database, which leads to the primary (docs/scaling.md).',
  }),
  DATABASE_URL_FILE: Type.Optional(
    Type.String({
      title: 'the path of a file',
      examples: ['/run/secrets/database-url'],
      description: 'A file that contains DATABASE_URL (a mounted secret). DATABASE_URL must then be unset or empty.',
    }),
  ),
  LOG_LEVEL: oneOf(['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'], {
    default: 'info',
    description:
      'The lowest level of log lines to write. Each request is one line at info. Changes to accounts and keys are written at any level.',
  }),
  QUICKSTART_BASE_PATH: Type.String({
    title: 'off, or a path such as /quickstart that is not below /v1, /docs or /account',
    pattern: '^(?!/(v1|docs|account)(/|$))(off|(/[A-Za-z0-9._~-]+)+)$',
    default: '/quickstart',
    description: 'Base path of the messages quickstart; off disables it.',
  }),
  SIGN_UP: Type.Optional(
    oneOf(['open', 'invitation', 'off', 'none'], {
      description:
        'Who can create an account on the pages under /account, where people sign in and make API keys: open, everybody; invitation, people with a link from animal-store account invite; off, nobody; none removes the pages. Unset: open, and in production invitation.',
    }),
  ),
  LAME_DUCK_MS: Type.Integer({
    title: 'a whole number from 0 to 600000',
    minimum: 0,
    maximum: 600_000,
    default: 0,
    description:
      'Milliseconds to keep serving after SIGTERM or SIGINT while /readyz returns 503. Set it to the time that a load balancer needs to notice.',
  }),
  MAX_CONNECTIONS: Type.Integer({
    title: 'a whole number from 1 to 100000',
    minimum: 1,
    maximum: 100_000,
    default: 5000,
    description:
      'Maximum number of open connections of each process. Beyond it, the oldest idle connection of the account or network that has most closes; if it has none, the new connection gets 503. Those of the proxies in TRUST_PROXY are not counted.',
  }),
  RATE_LIMIT: Type.Optional(
    Type.Integer({
      title: 'a whole number from 1 to 1000000',
      minimum: 1,
      maximum: 1_000_000,
      examples: [6000],
      description:
        'Maximum number of requests per minute that each process accepts from each account, with all its keys; beyond it, 429 with Retry-After. Accounts made by open sign-up count as their network. Unset: no limit.',
    }),
  ),
  TRUST_PROXY: Type.Optional(
    Type.String({
      title: 'addresses or networks of proxies, separated by commas, such as 10.0.0.0/8,::1',
      pattern: `^${address}(,${address})*$`,
      format: 'networks',
      description: 'Proxies whose X-Forwarded-For header is trusted. Unset: none.',
    }),
  ),
  CORS_ORIGINS: Type.Optional(
    Type.String({
      title: 'origins, separated by commas, such as https://app.example.com',
      pattern: `^${origin}(,${origin})*$`,
      format: 'origins',
      description: 'Origins whose pages can call the API from a browser. Unset: none.',
    }),
  ),
  SUNSET_ENFORCE: oneOf(['true', 'false'], {
    default: 'true',
    description:
      'Whether GET /pets/{petId} returns 410 from its removal date (5 December 2030) on; false keeps it available.',
  }),
});

export type Config = Static<typeof settings>;

/** Who can create an account: SIGN_UP, or its default for the deployment. */
export function signUpOf({ SIGN_UP, DEPLOYMENT }: Config): NonNullable<Config['SIGN_UP']> {
  return SIGN_UP ?? (DEPLOYMENT === 'production' ? 'invitation' : 'open');
}

/** The settings that differ from their defaults. */
export function changedSettings(config: Config): Partial<Config> {
  const { properties } = settings;
  return Object.fromEntries(
    Object.entries(config).filter(([name, value]) => value !== properties[name as keyof Config].default),
  );
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

/**
 * Reads and checks all settings; an empty value counts as unset. `fromFiles`: settings whose value is the content of the file that NAME_FILE
 * names. Throws ConfigError.
 */
export function readConfig(env: NodeJS.ProcessEnv, fromFiles: string[] = []): Config {
  const names = Object.keys(settings.properties) as (keyof Config)[];
  const given = Object.fromEntries(names.flatMap((name) => (env[name] ? [[name, read(name, env[name])]] : [])));
  const config = Value.Default(settings, given);
  if (Value.Check(settings, config)) return config;
  const wrong = new Set([...Value.Errors(settings, config)].map(({ path }) => path.slice(1) as keyof Config));
  const requirement = (name: keyof Config) =>
    fromFiles.includes(name) ? `${name}_FILE must name a file whose only line is` : `${name} must be`;
  throw new ConfigError(
    [...wrong].map((name) => `${requirement(name)} ${settings.properties[name].title}.`).join('\n'),
  );
}
