/** The settings: one table with each name, default and meaning, and its reading from the environment. */
import { type Static, Type } from '@sinclair/typebox';
import { Value } from '@sinclair/typebox/value';

const oneOf = <const Values extends string[]>(
  values: Values,
  options: { default: Values[number]; description: string },
) =>
  Type.Unsafe<Values[number]>(
    Type.String({ enum: values, pattern: `^(${values.join('|')})$`, title: `one of ${values.join(', ')}`, ...options }),
  );

const port = '(0|[1-9]\\d{0,3}|[1-5]\\d{4}|6[0-4]\\d{3}|65[0-4]\\d{2}|655[0-2]\\d|6553[0-5])';
const address = '[0-9A-Fa-f.:]+(/\\d{1,3})?';
const origin = 'https?://[A-Za-z0-9.:[\\]-]+';

/** A title ends the sentence "<NAME> must be …". */
export const settings = Type.Object({
  DEPLOYMENT: oneOf(['development', 'staging', 'production'], {
    default: 'development',
    description:
      'Which deployment this process belongs to. API keys of production start with ast_live_, all others with ast_test_.',
  }),
  HOST: Type.String({
    title: 'an address',
    default: '127.0.0.1',
    description: 'Address to listen on. 0.0.0.0 or :: for every interface.',
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
      "Address of the operators' door: /livez, /readyz and /metrics, without a key. Keep it off the public network.",
  }),
  OPS_PORT: Type.String({
    title: 'off, or a whole number from 0 to 65535',
    pattern: `^(off|${port})$`,
    default: '9464',
    description: "Port of the operators' door; off closes it. 0 lets the system choose a free one.",
  }),
  BASE_URL: Type.Optional(
    Type.String({
      title: 'an http or https address that ends in /v1, without a query',
      // Only what a header can carry as it is: an internationalized name goes in its ASCII form.
      pattern: '^https?://[A-Za-z0-9.:[\\]-]+(/[A-Za-z0-9._~%-]+)*/v1$',
      description:
        'Public base address; differs between production and staging, and ends in /v1. Put before the addresses in answers (Link, Location). Unset: absolute paths.',
    }),
  ),
  DATABASE_URL: Type.String({
    title: 'sqlite: and the path of a file, or postgres://user:password@host:port/database',
    // SQLite's :memory: would be a store of its own for each connection.
    pattern: '^(sqlite:(?!:memory:$)\\S(.*\\S)?|postgres(ql)?://[^\\s/]+/\\S+)$',
    default: 'sqlite:./data/animal-store.db',
    description:
      'The store: sqlite: and the path of a file, which is created with its folder where it is missing; or postgres://user:password@host:port/database, with several hosts separated by commas (docs/scaling.md).',
  }),
  LOG_LEVEL: oneOf(['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'], {
    default: 'info',
    description: 'The least severe log lines to write. Each request is one line at info.',
  }),
  WORKERS: Type.String({
    title: 'auto or a whole number from 1 to 99',
    pattern: '^(auto|[1-9][0-9]?)$',
    default: '1',
    description: "Processes that serve the port together; auto starts one for each of the machine's processors.",
  }),
  QUICKSTART_BASE_PATH: Type.String({
    title: 'off, or a path such as /quickstart that is not below /v1',
    pattern: '^(?!/v1(/|$))(off|(/[A-Za-z0-9._~-]+)+)$',
    default: '/quickstart',
    description: 'Path below which the messages quickstart is served; off serves none.',
  }),
  LAME_DUCK_MS: Type.Integer({
    title: 'a whole number from 0 to 600000',
    minimum: 0,
    maximum: 600_000,
    default: 0,
    description:
      'Milliseconds from SIGTERM or SIGINT, in which /readyz answers 503 and everything else is still served, to the end of the listening. As long as a load balancer takes to notice.',
  }),
  MAX_IN_FLIGHT: Type.Integer({
    title: 'a whole number from 1 to 100000',
    minimum: 1,
    maximum: 100_000,
    default: 1000,
    description:
      'Requests that the store works on at the same time, and request bodies that are arriving; beyond them, 503 with Retry-After. One key may have all, but never keeps the others from an equal share.',
  }),
  MAX_CONNECTIONS: Type.Integer({
    title: 'a whole number from 1 to 100000',
    minimum: 1,
    maximum: 100_000,
    default: 5000,
    description:
      'Connections of each process at the same time; beyond them, 503. One address may have all, but never keeps the others from an equal share; the proxies of TRUST_PROXY are not counted.',
  }),
  RATE_LIMIT: Type.Optional(
    Type.Integer({
      title: 'a whole number from 1 to 1000000',
      minimum: 1,
      maximum: 1_000_000,
      description:
        'Requests that an API key may make in a minute, of each process; beyond them, 429 with Retry-After. Unset: any number.',
    }),
  ),
  REFUSAL_LIMIT: Type.Integer({
    title: 'a whole number from 1 to 1000000',
    minimum: 1,
    maximum: 1_000_000,
    default: 600,
    description:
      'Refused API keys that an address may present in a minute, to each process; beyond them, 429 instead of 401. No valid key is ever held back by it.',
  }),
  TRUST_PROXY: Type.Optional(
    Type.String({
      title: 'addresses or networks of proxies, separated by commas, such as 10.0.0.0/8,::1',
      pattern: `^${address}(,${address})*$`,
      description: 'Proxies whose X-Forwarded-For is believed. Unset: none.',
    }),
  ),
  CORS_ORIGINS: Type.Optional(
    Type.String({
      title: 'origins, separated by commas, such as https://app.example.com',
      pattern: `^${origin}(,${origin})*$`,
      description: 'Origins whose pages may call the interface from a browser. Unset: none.',
    }),
  ),
  SUNSET_ENFORCE: oneOf(['true', 'false'], {
    default: 'true',
    description:
      'Whether GET /pets/{petId} answers 410 from its removal date (5 December 2030) on; false keeps it serving.',
  }),
});

export type Config = Static<typeof settings>;

/** Its message holds a sentence for each setting at fault, a line each. */
export class ConfigError extends Error {
  override name = 'ConfigError';
}

/** Strict: Number() would take " " for 0, 0x10 for 16, and let Infinity pass. */
function read(name: keyof Config, text: string): string | number {
  if (settings.properties[name].type !== 'integer') return text;
  return /^(0|[1-9]\d*)$/.test(text) ? Number(text) : Number.NaN;
}

/** Reads and checks all settings; an empty value counts as unset. Throws ConfigError. */
export function readConfig(env: NodeJS.ProcessEnv): Config {
  const names = Object.keys(settings.properties) as (keyof Config)[];
  const given = Object.fromEntries(names.flatMap((name) => (env[name] ? [[name, read(name, env[name])]] : [])));
  const config = Value.Default(settings, given);
  if (Value.Check(settings, config)) return config;
  const wrong = new Set([...Value.Errors(settings, config)].map(({ path }) => path.slice(1) as keyof Config));
  throw new ConfigError([...wrong].map((name) => `${name} must be ${settings.properties[name].title}.`).join('\n'));
}
