/** Starts containers of the built image with the limits of compose.yaml, and removes them when the test ends. */
import { randomUUID } from 'node:crypto';
import { expect, inject, onTestFinished } from 'vitest';
import { limitsOf, readComposition } from './compose.ts';
import { type Engine, imageName } from './engine.ts';
import { attempt, execute, type Output } from './execute.ts';

const limits = limitsOf(readComposition().services.staging);

/** Runs a command of the engine; rejects if it fails. */
export function engine(...args: string[]): Promise<string> {
  const { command, env, folder } = inject('engine') as Engine;
  return execute(command, args, { env, cwd: folder });
}

export function attemptEngine(...args: string[]): Promise<Output> {
  const { command, env, folder } = inject('engine') as Engine;
  return attempt(command, args, { env, cwd: folder });
}

/** Names a new volume for a store; it is removed when the test ends. */
export function newVolume(): string {
  const name = `animal-store-${randomUUID()}`;
  onTestFinished(() => engine('volume', 'rm', '--force', name).then(() => undefined));
  return name;
}

export interface Container {
  name: string;
  /** URLs on this machine, without a path. */
  url: string;
  opsUrl: string;
  /** Runs a program in the container to its end. */
  run: (...command: string[]) => Promise<Output>;
  /** Everything that it has written to stdout and stderr. */
  log: () => Promise<string>;
  /** Sends the image's stop signal and waits; resolves to the exit code. */
  stop: () => Promise<number>;
  call: (key: string | null, method: string, path: string, body?: unknown) => Promise<Answer>;
}

interface Answer {
  status: number;
  location?: string;
  // biome-ignore lint/suspicious/noExplicitAny: tests assert the fields that they read.
  json: any;
}

/** Starts a container without waiting until it is ready. `more` overrides the limits. */
export async function launchContainer(
  volume: string,
  env: Record<string, string> = {},
  more: string[] = [],
): Promise<string> {
  const name = `animal-store-${randomUUID()}`;
  onTestFinished(() => attemptEngine('rm', '--force', '--volumes', name).then(() => undefined));
  const settings = Object.entries(env).flatMap(([setting, value]) => ['--env', `${setting}=${value}`]);
  const ports = ['--publish', '127.0.0.1::3000', '--publish', '127.0.0.1::9464'];
  const { runArgs } = inject('engine') as Engine;
  const args = [
    '--detach',
    '--name',
    name,
    '--volume',
    `${volume}:/data`,
    ...ports,
    ...settings,
    ...limits,
    ...runArgs,
    ...more,
  ];
  await engine('run', ...args, imageName);
  return name;
}

export async function exitCodeOf(name: string): Promise<number> {
  return Number(await engine('wait', name));
}

/** Starts a container and waits until it is ready. */
export async function startContainer(
  volume: string,
  env: Record<string, string> = {},
  more: string[] = [],
): Promise<Container> {
  const name = await launchContainer(volume, env, more);
  const container = await containerNamed(name);
  const ready = () => fetch(`${container.opsUrl}/readyz`).then(({ status }) => status, String);
  await expect
    .poll(ready)
    .toBe(200)
    .catch(async (error) => {
      throw new Error(await container.log(), { cause: error });
    });
  return container;
}

export async function containerNamed(name: string): Promise<Container> {
  const address = async (port: number) => `http://${(await engine('port', name, `${port}/tcp`)).split('\n')[0]}`;
  const url = await address(3000);
  return {
    name,
    url,
    opsUrl: await address(9464),
    run: (...command) => attemptEngine('exec', name, ...command),
    log: () => attemptEngine('logs', name).then(({ stdout, stderr }) => stdout + stderr),
    stop: async () => {
      await engine('stop', name);
      return exitCodeOf(name);
    },
    call: async (key, method, path, body) => {
      const headers = {
        ...(key !== null && { authorization: `Bearer ${key}` }),
        ...(body !== undefined && { 'content-type': 'application/json' }),
      };
      const response = await fetch(url + path, {
        method,
        headers,
        body: body === undefined ? null : JSON.stringify(body),
      });
      const location = response.headers.get('location');
      return { status: response.status, json: await response.json(), ...(location !== null && { location }) };
    },
  };
}

/** Creates an API key with the command-line tool in the container. */
export async function createKey({ run }: Container): Promise<string> {
  const cli = ['node', 'src/cli.ts'];
  await run(...cli, 'account', 'add', 'zoo');
  const { code, stdout } = await run(...cli, 'key', 'create', '--account', 'zoo', '--name', 'till');
  expect(code).toBe(0);
  return stdout.trim();
}
