/** Runs a program to its end. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';

export interface Output {
  /** 127 if the program does not exist. */
  code: number | null;
  stdout: string;
  stderr: string;
}

interface Options {
  env?: Record<string, string> | undefined;
  cwd?: string | undefined;
  timeoutMs?: number | undefined;
}

/** Resolves also if the program fails. */
export async function attempt(file: string, args: string[], options: Options = {}): Promise<Output> {
  const { env = {}, cwd, timeoutMs = 60_000 } = options;
  const child = spawn(file, args, {
    cwd,
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: timeoutMs,
    killSignal: 'SIGKILL',
  });
  const output = Promise.all([text(child.stdout), text(child.stderr)]);
  const code = await once(child, 'close').then(
    ([exitCode]) => exitCode as number | null,
    (error: NodeJS.ErrnoException) => (error.code === 'ENOENT' ? 127 : Promise.reject(error)),
  );
  const [stdout, stderr] = await output;
  return { code, stdout, stderr };
}

/** Resolves to the output without trailing white space; rejects if the program fails. */
export async function execute(file: string, args: string[], options: Options = {}): Promise<string> {
  const { code, stdout, stderr } = await attempt(file, args, options);
  if (code !== 0) throw new Error(`${file} ${args.join(' ')}: exit ${code}\n${stdout}${stderr}`);
  return stdout.trimEnd();
}

export async function isInstalled(program: string): Promise<boolean> {
  return (await attempt(program, ['--version'])).code === 0;
}
