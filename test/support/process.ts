/** Runs the server and the operator's commands, each in its own folder and environment. Processes are killed when the test ends. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { realpathSync } from 'node:fs';
import { connect, type Socket, type TcpNetConnectOpts } from 'node:net';
import path from 'node:path';
import { Readable, Writable } from 'node:stream';
import { expect, onTestFinished } from 'vitest';
import { run } from '../../src/cli/program.ts';
import { temporaryFolder } from './app.ts';
import { nodeOptions, projectFolder } from './project.ts';
import { rawPost } from './raw.ts';

export interface CliSurroundings {
  /** Working directory; undefined creates a new one. */
  folder?: string;
  /** The whole environment. A process also gets PATH, and a server PORT=0. */
  env?: Record<string, string | undefined>;
  /** Of a command inside this process, whose stdin is empty: whether its outputs are a terminal, and how writing to stdout fails. */
  isTTY?: boolean;
  unwritable?: Error;
}

export interface Surroundings extends CliSurroundings {
  /** Folder of the server's source; undefined is this project's. */
  source?: string;
  /** A program and its arguments that the command line is appended to. */
  under?: string[];
  /** Runs it in a process group of its own, all processes of which get each signal, as from a terminal or from timeout(1). */
  group?: boolean;
}

export interface Exit {
  code: number | null;
  stdout: string;
  stderr: string;
}

export type Process = ReturnType<typeof launch>;

/** Starts a program, which is killed when the test ends if it still runs. */
export function launch(file: string, args: string[], surroundings: Surroundings) {
  const { folder = temporaryFolder(), env = {}, group = false } = surroundings;
  const child = spawn(file, args, {
    cwd: folder,
    // Nothing else is inherited: a developer's DATABASE_URL must not become the tests' store. vitest.config.ts sets the cache.
    env: { PATH: process.env.PATH, NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: group,
  });
  const output = { stdout: '', stderr: '' };
  for (const stream of ['stdout', 'stderr'] as const)
    child[stream].setEncoding('utf8').on('data', (text: string) => {
      output[stream] += text;
    });
  const exit = once(child, 'close').then(([code]): Exit => ({ code, ...output }));

  const end = (signal?: NodeJS.Signals) => {
    try {
      if (signal && group) process.kill(-(child.pid as number), signal);
      else if (signal) child.kill(signal);
    } catch (error) {
      // All processes of the group have ended.
      if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
    }
    return exit;
  };
  onTestFinished(() => end('SIGKILL').then(() => undefined));

  return {
    pid: child.pid as number,
    folder,
    stdout: () => output.stdout,
    stderr: () => output.stderr,
    /** Resolves when the output matches; rejects if the process ends first. */
    seen: (stream: 'stdout' | 'stderr', pattern: RegExp) =>
      new Promise<RegExpExecArray>((resolve, reject) => {
        const look = () => {
          const match = pattern.exec(output[stream]);
          if (match) resolve(match);
        };
        child[stream].on('data', look);
        look();
        exit.then(({ code, stderr }) => reject(new Error(`exit ${code} before ${pattern} was seen\n${stderr}`)));
      }),
    /** Sends the signal, if any, and waits until the process ends. */
    end,
    /** Sends SIGTERM, after which it must exit with 0. */
    async stop() {
      const { code, stderr } = await end('SIGTERM');
      expect(code, stderr).toBe(0);
    },
  };
}

/** An environment in which Node runs this module first. */
export const withScript = (script: string) => ({
  NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(script)}`,
});

/** Starts the server as `npm start` does, and does not wait until it listens. */
export function launchServer(surroundings: Surroundings = {}) {
  const { env, source = projectFolder, under = [] } = surroundings;
  const [file = '', ...args] = [...under, process.execPath, ...nodeOptions, path.join(source, 'src/main.ts')];
  return launch(file, args, { ...surroundings, env: { PORT: '0', OPS_PORT: '0', ...env } });
}

export type Server = Awaited<ReturnType<typeof listening>>;

/** Starts the server and waits until it listens. */
export const startServer = (surroundings: Surroundings = {}) => listening(launchServer(surroundings));

/** Starts `npm start`, in a process group of its own, and waits until the server listens. */
export function startWithNpm(env: Record<string, string>) {
  return listening(
    launch('npm', ['start'], { folder: projectFolder, env: { PORT: '0', OPS_PORT: 'off', ...env }, group: true }),
  );
}

async function listening(server: Process) {
  const [, url = '', port] = await server.seen('stdout', /Server listening at (http:\/\/\S+:(\d+))"/);
  /** Address of the ops port. */
  const opsUrl = () => /Ops port open at (http:\/\/[^"]+)"/.exec(server.stdout())?.[1] as string;
  let shown: Promise<RegExpExecArray> | undefined;
  /** The key that a first start prints. */
  const firstKey = async () => {
    shown ??= server.seen('stderr', /^ {2}(ast_test_\w+)$/m);
    return (await shown)[1] as string;
  };
  type Headers = Record<string, string>;
  /** One request with the key, as JSON where there is a body. */
  const call = async (key: string | null, method: string, path: string, body?: unknown, more?: Headers) => {
    const response = await fetch(url + path, {
      method,
      headers: {
        ...(key !== null && { authorization: `Bearer ${key}` }),
        ...(body !== undefined && { 'content-type': 'application/json' }),
        ...more,
      },
      body: body === undefined ? null : JSON.stringify(body),
    });
    // biome-ignore lint/suspicious/noExplicitAny: a test states what it expects of a body by reading it.
    const json: any = await response.json();
    return { status: response.status, headers: response.headers, json };
  };
  return {
    ...server,
    /** Address of the server, without a path. */
    url,
    port: Number(port),
    opsUrl,
    firstKey,
    call,
    /** Adds an animal with the first key. */
    add: async (pet: object = tabby, headers: Headers = {}) => call(await firstKey(), 'POST', '/v1/pets', pet, headers),
    /** Reads with the first key. */
    get: async (path: string) => call(await firstKey(), 'GET', path),
    /** What Prometheus gets. */
    metrics: async () => (await fetch(`${opsUrl()}/metrics`)).text(),
  };
}

/** The commands that run in this process, and the folder that it was in before. */
let [running, before] = [0, ''];

/** Runs a command inside this process, in its folder: at the same time, others can run in the same folder only. */
export async function runCli(args: string[], surroundings: CliSurroundings = {}) {
  const { folder = temporaryFolder(), env = {}, isTTY = false, unwritable } = surroundings;
  const [stdout, stderr] = [createSink(unwritable), createSink()];
  // As a process gets it: without the variables that are undefined, and with nothing of this process's environment.
  const given = Object.fromEntries(Object.entries(env).filter(([, value]) => value !== undefined));
  if (running > 0 && process.cwd() !== realpathSync(folder)) throw new Error('Another command runs in another folder.');
  if (running === 0) before = process.cwd();
  running += 1;
  process.chdir(folder);
  try {
    const io = {
      stdin: Readable.from(['']),
      stdout: Object.assign(stdout.stream, { isTTY }),
      stderr: Object.assign(stderr.stream, { isTTY }),
    };
    const code = await run(args, given, io);
    return { code, stdout: stdout.text(), stderr: stderr.text() };
  } finally {
    running -= 1;
    if (running === 0) process.chdir(before);
  }
}

function createSink(error?: Error) {
  const chunks: Buffer[] = [];
  const stream = new Writable({
    write(chunk: Buffer, _encoding, done) {
      chunks.push(chunk);
      done(error);
    },
  });
  return { stream, text: () => Buffer.concat(chunks).toString() };
}

/** Starts `node src/cli.ts`: for tests of signals, of locks between processes, and of anything else that needs a real process. */
export function launchCli(args: string[], surroundings: Surroundings = {}) {
  const { source = projectFolder, under = [] } = surroundings;
  const [file = '', ...before] = [...under, process.execPath, path.join(source, 'src/cli.ts')];
  return launch(file, [...before, ...args], surroundings);
}

/** A connection to a server of this machine. */
export async function openSocket(port: number, options: Partial<TcpNetConnectOpts> = {}): Promise<Socket> {
  const socket = connect({ port, host: '127.0.0.1', ...options });
  onTestFinished(() => void socket.destroy());
  socket.on('error', () => {});
  await once(socket, 'connect');
  return socket;
}

export const tabby = { name: 'Tabby', categoryId: 1 };

/** Begins a create. What it resolves to sends the body, expects 201 and resolves to the response. */
export async function begin(server: Server): Promise<() => Promise<string>> {
  const socket = await openSocket(server.port);
  const body = JSON.stringify(tabby);
  const head = rawPost(await server.firstKey(), '', body.length);
  const answer = async () => String((await once(socket, 'data'))[0]);
  socket.write(head.replace(/\r\n$/, 'Expect: 100-continue\r\n\r\n'));
  expect(await answer()).toMatch(/^HTTP\/1\.1 100 /);
  return async () => {
    socket.write(body);
    const created = await answer();
    expect(created).toMatch(/^HTTP\/1\.1 201 /);
    return created;
  };
}
