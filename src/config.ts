/** The settings: one table with each name, default and meaning, and its reading from the environment. */
import { type Static, Type } from '@sinclair/typebox';
import envSchema from 'env-schema';

const oneOf = <const Values extends string[]>(
  values: Values,
  options: { default: Values[number]; description: string },
) => Type.Unsafe<Values[number]>({ type: 'string', enum: values, title: `one of ${values.join(', ')}`, ...options });

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
    title: 'sqlite: and the path of a file',
    // SQLite's :memory: would be a store of its own for each connection.
    pattern: '^sqlite:(?!:memory:$)\\S(.*\\S)?$',
    default: 'sqlite:./data/animal-store.db',
    description: 'The store: sqlite: and the path of a file, which is created with its folder where it is missing.',
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

/** Integers are read here and strictly: the validator's coercion takes " " for 0, 0x10 for 16, and lets Infinity pass. */
function read(name: string, text: string): string | number {
  if (settings.properties[name as keyof Config]?.type !== 'integer') return text;
  return /^(0|[1-9]\d*)$/.test(text) ? Number(text) : Number.NaN;
}

/** Reads and checks all settings; an empty value counts as unset. Throws ConfigError. */
export function readConfig(env: NodeJS.ProcessEnv): Config {
  const set = Object.entries(env).flatMap(([name, value]) => (value ? [[name, read(name, value)]] : []));
  const given = Object.fromEntries(set);
  try {
    return envSchema<Config>({ schema: settings, data: given, env: false });
  } catch (error) {
    const { errors } = error as { errors: { instancePath: string }[] };
    const names = new Set(errors.map(({ instancePath }) => instancePath.slice(1) as keyof Config));
    throw new ConfigError([...names].map((name) => `${name} must be ${settings.properties[name].title}.`).join('\n'));
  }
}
