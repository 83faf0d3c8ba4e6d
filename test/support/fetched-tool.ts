/** Finds programs that are too large to be dependencies: npm downloads packages into its cache, and Debian's packages provide the rest. */
import { execFileSync, spawnSync } from 'node:child_process';
import { realpathSync } from 'node:fs';
import { projectFolder } from './project.ts';

/** The file of `command`, from npm packages such as `name@1.2.3`. Throws if npm cannot download them. */
export function fetchTool(command: string, ...packages: string[]): string {
  const args = ['exec', '--yes', '--ignore-scripts', ...packages.map((name) => `--package=${name}`)];
  const file = execFileSync('npm', [...args, `--call=command -v ${command}`], { cwd: projectFolder, encoding: 'utf8' });
  return realpathSync(file.trimEnd());
}

/** The first of the commands that exits with 0, with its arguments; undefined if there is none. */
export function findWorking(...commands: [string, ...string[]][]): string | undefined {
  return commands.find(([file, ...args]) => spawnSync(file, args, { stdio: 'ignore' }).status === 0)?.[0];
}
