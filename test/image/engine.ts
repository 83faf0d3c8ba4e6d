/** Finds the container engine, and runs it: Docker if its daemon responds, otherwise Podman with separate storage for this run. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { text } from 'node:stream/consumers';

export const imageName = 'animal-store:test';

export interface Engine {
  command: 'docker' | 'podman';
  env: Record<string, string>;
  /** Folder for the files of this run. */
  folder: string;
}

export interface Output {
  /** 127 if the program does not exist. */
  code: number | null;
  stdout: string;
  stderr: string;
}

interface Options {
  env?: Record<string, string>;
  cwd?: string;
}

/** Runs a program to its end; resolves also if it fails. */
export async function attempt(file: string, args: string[], { env = {}, cwd }: Options = {}): Promise<Output> {
  const child = spawn(file, args, {
    cwd,
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: 600_000,
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
export async function execute(file: string, args: string[], options?: Options): Promise<string> {
  const { code, stdout, stderr } = await attempt(file, args, options);
  if (code !== 0) throw new Error(`${file} ${args.join(' ')}: exit ${code}\n${stdout}${stderr}`);
  return stdout.trimEnd();
}

export const works = async (file: string, ...args: string[]): Promise<boolean> =>
  (await attempt(file, args)).code === 0;

/** The engine, or the reason why there is none. */
export async function findEngine(folder: string): Promise<Engine | string> {
  if (await works('docker', 'info')) return { command: 'docker', env: {}, folder };
  if (!(await works('podman', '--version'))) return 'no Docker daemon answers, and podman is not installed';
  const files = { storage: path.join(folder, 'storage.conf'), containers: path.join(folder, 'containers.conf') };
  // Without overlay, use vfs, which copies each layer completely.
  const driver = readFileSync('/proc/filesystems', 'utf8').includes('\toverlay\n') ? 'overlay' : 'vfs';
  writeFileSync(
    files.storage,
    `[storage]\ndriver = "${driver}"\ngraphroot = "${folder}/root"\nrunroot = "${folder}/run"\n`,
  );
  const lines = [
    '[containers]',
    // Podman would raise these limits above its own, which a sandbox may forbid.
    'default_ulimits = ["nofile=4096:4096", "nproc=4096:4096"]',
    '[network]',
    `network_config_dir = "${folder}/networks"`,
    '[engine]',
    'events_logger = "file"',
    `cgroup_manager = "${existsSync('/run/systemd/system') ? 'systemd' : 'cgroupfs'}"`,
  ];
  writeFileSync(files.containers, lines.join('\n'));
  const env = {
    CONTAINERS_STORAGE_CONF: files.storage,
    CONTAINERS_CONF: files.containers,
    BUILDAH_ISOLATION: 'chroot',
    // The OCI format has no health check.
    BUILDAH_FORMAT: 'docker',
  };
  return { command: 'podman', env, folder };
}
