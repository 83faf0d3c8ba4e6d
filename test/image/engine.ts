/** Finds the container engine: Docker if its daemon responds, otherwise Podman with separate storage for this run. */
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { attempt, isInstalled } from './execute.ts';

export const projectFolder = fileURLToPath(new URL('../../', import.meta.url));
export const imageName = 'animal-store:test';

export interface Engine {
  command: 'docker' | 'podman';
  env: Record<string, string>;
  /** Options for every container, in addition to its limits. */
  runArgs: string[];
  /** Folder for the files of this run. */
  folder: string;
}

/** The engine, or the reason why there is none. */
export async function findEngine(folder: string): Promise<Engine | string> {
  if ((await attempt('docker', ['info'])).code === 0) return { command: 'docker', env: {}, runArgs: [], folder };
  if (!(await isInstalled('podman'))) return 'no Docker daemon answers, and podman is not installed';
  return podmanIn(folder);
}

function podmanIn(folder: string): Engine {
  const storage = path.join(folder, 'storage.conf');
  const containers = path.join(folder, 'containers.conf');
  // Without overlay, use vfs, which copies each layer completely.
  const driver = readFileSync('/proc/filesystems', 'utf8').includes('\toverlay\n') ? 'overlay' : 'vfs';
  writeFileSync(storage, `[storage]\ndriver = "${driver}"\ngraphroot = "${folder}/root"\nrunroot = "${folder}/run"\n`);
  writeFileSync(
    containers,
    [
      '[containers]',
      // Podman would raise these limits above its own, which a sandbox may forbid.
      'default_ulimits = ["nofile=4096:4096", "nproc=4096:4096"]',
      '[network]',
      `network_config_dir = "${folder}/networks"`,
      '[engine]',
      'events_logger = "file"',
      `cgroup_manager = "${existsSync('/run/systemd/system') ? 'systemd' : 'cgroupfs'}"`,
    ].join('\n'),
  );
  return {
    command: 'podman',
    env: {
      CONTAINERS_STORAGE_CONF: storage,
      CONTAINERS_CONF: containers,
      BUILDAH_ISOLATION: 'chroot',
      // The OCI format has no health check.
      BUILDAH_FORMAT: 'docker',
    },
    // By default Podman keeps /tmp and /run writable under a read-only root; Docker does not.
    runArgs: ['--read-only-tmpfs=false'],
    folder,
  };
}
