/** Builds a replacement for the official Node image, for machines that cannot pull it: Debian from debootstrap, with this machine's Node and npm. */
import { copyFileSync, cpSync, existsSync, mkdirSync, realpathSync, renameSync, symlinkSync } from 'node:fs';
import path from 'node:path';
import { projectFolder } from '../../support/project.ts';
import { type Engine, execute, works } from './engine.ts';

/** Makes a base image with this name, for example node:26-bookworm-slim. Without root, Podman or debootstrap, the build pulls it. */
export function makeBase({ command, env, folder }: Engine, name: string): 'made' | 'pulled' {
  if (command !== 'podman' || process.getuid?.() !== 0 || !works('debootstrap', '--version')) return 'pulled';
  const [, major, release] = /^node:(\d+)-(\w+)-slim$/.exec(name) ?? [];
  if (!release || !process.version.startsWith(`v${major}.`)) return 'pulled';
  const cache = path.join(projectFolder, 'node_modules/.cache/animal-store');
  const archive = path.join(cache, `node-${process.version}-${release}.tar`);
  if (!existsSync(archive)) {
    mkdirSync(cache, { recursive: true });
    pack(path.join(folder, 'base'), release, `${archive}.part`);
    renameSync(`${archive}.part`, archive);
  }
  const PATH = 'PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';
  const changes = ['--change', `ENV ${PATH}`, '--change', 'CMD ["node"]'];
  execute(command, ['import', '-q', ...changes, archive, `docker.io/library/${name}`], env);
  return 'made';
}

function pack(root: string, release: string, archive: string) {
  // Node 26 is linked to libatomic.
  execute('debootstrap', ['--variant=minbase', '--include=libatomic1', release, root]);
  const local = path.join(root, 'usr/local');
  copyFileSync(process.execPath, path.join(local, 'bin/node'));
  const modules = path.join(local, 'lib/node_modules');
  mkdirSync(modules, { recursive: true });
  // Not below the folder of `npm root -g`, which is that of the project's own Node.
  cpSync(path.join(realpathSync(execute('sh', ['-c', 'command -v npm'])), '../..'), path.join(modules, 'npm'), {
    recursive: true,
  });
  symlinkSync('../lib/node_modules/npm/bin/npm-cli.js', path.join(local, 'bin/npm'));
  execute('tar', ['-C', root, '--exclude=./var/cache/apt/archives/*.deb', '-cf', archive, '.']);
}
