/** Finds the container engine: Docker if its daemon responds, otherwise Podman with separate storage for this run. */
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';

export const imageName = 'animal-store:test';

export interface Engine {
  command: 'docker' | 'podman';
  env: Record<string, string>;
  /** Folder for the files of this run. */
  folder: string;
}

/** Runs a program to its end, also if it fails. */
export const attempt = (file: string, args: string[], env: Record<string, string> = {}) =>
  spawnSync(file, args, { encoding: 'utf8', env: { ...process.env, ...env }, maxBuffer: 2 ** 28 });

/** The output without trailing white space; throws if the program fails. */
export function execute(file: string, args: string[], env?: Record<string, string>) {
  const { status, stdout, stderr } = attempt(file, args, env);
  if (status !== 0) throw new Error(`${file} ${args.join(' ')}: exit ${status}\n${stdout}${stderr}`);
  return stdout.trimEnd();
}

export const works = (file: string, ...args: string[]) => attempt(file, args).status === 0;

/** The engine, or the reason why there is none. */
export function findEngine(folder: string): Engine | string {
  if (works('docker', 'info')) return { command: 'docker', env: {}, folder };
  if (!works('podman', '--version')) return 'no Docker daemon answers, and podman is not installed';
  const files = { storage: path.join(folder, 'storage.conf'), containers: path.join(folder, 'containers.conf') };
  // Without overlay, use vfs, which copies each layer completely.
  const driver = readFileSync('/proc/filesystems', 'utf8').includes('\toverlay\n') ? 'overlay' : 'vfs';
  const storage = `[storage]\ndriver = "${driver}"\ngraphroot = "${folder}/root"\nrunroot = "${folder}/run"\n`;
  writeFileSync(files.storage, storage);
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
    // The OCI format has no health check.
    BUILDAH_ISOLATION: 'chroot',
    BUILDAH_FORMAT: 'docker',
  };
  return { command: 'podman', env, folder };
}
