/** The real processes: `node src/main.ts` and `node src/cli.ts`, in a folder and an environment of their own, gone with the test. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { expect, onTestFinished } from 'vitest';
import { temporaryFolder } from './app.ts';
import { nodeOptions, projectFolder } from './project.ts';

/** Where each process says what of it ran, for `npm test` to hold to 100 % what runs in processes of its own only. */
const coverageFolder = `${projectFolder}coverage/processes`;

/** A start is mostly compiling; what comes out of the cache cannot be measured. vitest.config.ts sets it. */
const quick = { NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE };

/** What npm run test:mutation tells the processes (test/mutation/setup.ts). */
function ofMutation(): Record<string, string | undefined> {
  const { NODE_OPTIONS, MUTANTS_FOLDER, MUTANTS_TEST, __STRYKER_ACTIVE_MUTANT__ } = process.env;
  return MUTANTS_FOLDER ? { NODE_OPTIONS, MUTANTS_FOLDER, MUTANTS_TEST, __STRYKER_ACTIVE_MUTANT__ } : {};
}

/** Not where a process is put under faults and load: what it runs there is run elsewhere as well. */
const isMeasured = () => !process.env.MUTANTS_FOLDER && !expect.getState().testPath?.includes('/reliability/');

export interface Surroundings {
  /** Working directory; undefined makes a new one. */
  folder?: string;
  /** The whole environment but for PATH, and PORT=0 for a server. */
  env?: Record<string, string | undefined>;
  /** Folder of the server's source; undefined is this project's. */
  source?: string;
  /** Program, with its arguments, that the command line is given to. */
  under?: string[];
  /** Whether it tells what of it ran, which makes it several times slower; undefined: outside of reliability/. */
  measured?: boolean;
}

export interface Exit {
  code: number | null;
  stdout: string;
  stderr: string;
}

export interface Process {
  pid: number;
  folder: string;
  stdout: () => string;
  stderr: () => string;
  /** Resolves when the output matches; rejects where the process ends before. */
  seen: (stream: 'stdout' | 'stderr', pattern: RegExp) => Promise<RegExpExecArray>;
  /** Sends the signal, if any, and waits for the end. */
  end: (signal?: NodeJS.Signals) => Promise<Exit>;
}

/** Starts a program that is killed, if it still runs, when the test ends. */
export function launch(file: string, args: string[], surroundings: Surroundings): Process {
  const { folder = temporaryFolder(), env = {}, measured = isMeasured() } = surroundings;
  const child = spawn(file, args, {
    cwd: folder,
    // Nothing else is inherited: a DATABASE_URL of the developer's must not become the tests' store.
    env: {
      PATH: process.env.PATH,
      ...(measured ? { NODE_V8_COVERAGE: coverageFolder } : quick),
      ...ofMutation(),
      ...env,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const output = { stdout: '', stderr: '' };
  for (const stream of ['stdout', 'stderr'] as const)
    child[stream].setEncoding('utf8').on('data', (text: string) => {
      output[stream] += text;
    });
  const exit = once(child, 'close').then(([code]) => ({ code: code as number | null, ...output }));

  const end: Process['end'] = (signal) => {
    if (signal) child.kill(signal);
    return exit;
  };
  onTestFinished(() => end('SIGKILL').then(() => undefined));

  return {
    pid: child.pid as number,
    folder,
    stdout: () => output.stdout,
    stderr: () => output.stderr,
    seen: (stream, pattern) =>
      new Promise((resolve, reject) => {
        const look = () => {
          const match = pattern.exec(output[stream]);
          if (match) resolve(match);
        };
        child[stream].on('data', look);
        look();
        exit.then(({ code, stderr }) => reject(new Error(`exit ${code} before ${pattern} was seen\n${stderr}`)));
      }),
    end,
  };
}

/** The server as `npm start` runs it, whether or not it comes to listen. */
export function launchServer(surroundings: Surroundings = {}): Process {
  const { env, source = projectFolder, under = [] } = surroundings;
  const [file = '', ...args] = [...under, process.execPath, ...nodeOptions, path.join(source, 'src/main.ts')];
  return launch(file, args, { ...surroundings, env: { PORT: '0', OPS_PORT: '0', ...env } });
}

export interface Server extends Process {
  /** Address of the server, without a path. */
  url: string;
  port: number;
  /** Address of the operators' door. */
  opsUrl: () => string;
  /** The key that a first start prints. */
  firstKey: () => Promise<string>;
  /** One request with the key, as JSON where there is a body. */
  call: (
    key: string | null,
    method: string,
    path: string,
    body?: unknown,
    headers?: Record<string, string>,
  ) => Promise<Answer>;
}

interface Answer {
  status: number;
  headers: Headers;
  // biome-ignore lint/suspicious/noExplicitAny: a test states what it expects of a body by reading it.
  json: any;
}

/** The server, listening. */
export async function startServer(surroundings: Surroundings = {}): Promise<Server> {
  const server = launchServer(surroundings);
  const [, url = '', port] = await server.seen('stdout', /Server listening at (http:\/\/\S+:(\d+))"/);
  return {
    ...server,
    url,
    port: Number(port),
    opsUrl: () => /Ops port open at (http:\/\/[^"]+)"/.exec(server.stdout())?.[1] as string,
    firstKey: async () => (await server.seen('stderr', /^ {2}(ast_test_\w+)$/m))[1] as string,
    call: async (key, method, path, body, more) => {
      const response = await fetch(url + path, {
        method,
        headers: {
          ...(key !== null && { authorization: `Bearer ${key}` }),
          ...(body !== undefined && { 'content-type': 'application/json' }),
          ...more,
        },
        body: body === undefined ? null : JSON.stringify(body),
      });
      return { status: response.status, headers: response.headers, json: await response.json() };
    },
  };
}

/** `node src/cli.ts` with these arguments, to its end. */
export function runCli(args: string[], surroundings: Surroundings = {}): Promise<Exit> {
  const [file = '', ...before] = [...(surroundings.under ?? []), process.execPath, `${projectFolder}src/cli.ts`];
  return launch(file, [...before, ...args], surroundings).end();
}
