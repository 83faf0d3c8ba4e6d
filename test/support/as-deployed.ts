/** The shipped nginx without TLS, and a quota of the processor, for what is measured as deployed. */
import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';

/** The text of a file of nginx, with those that it includes of the project's. */
function inline(deploy: string, name: string): string {
  return readFileSync(`${deploy}/${name}`, 'utf8').replace(/^ *include (.*);/gm, (_, file) => {
    if (file.includes('conf.d')) return inline(deploy, 'nginx.conf');
    return file.startsWith('animal-store/') ? inline(deploy, file.replace('animal-store', 'nginx')) : '';
  });
}

/**
 * Writes nginx's files of a checkout as one file of the folder, and returns its name. It listens at `port` and the next one without TLS, in one
 * process, which leaves no workers when it is killed.
 */
export function configureProxy(source: string, folder: string, port: number, upstream: number): string {
  const replacements: [from: RegExp, to: string][] = [
    [/^user .*$/m, 'daemon off;\nmaster_process off;'],
    [/\/run\/|\/var\/log\/nginx\//g, `${folder}/`],
    [/127\.0\.0\.1:3000/g, `127.0.0.1:${upstream}`],
    [/listen \[::\][^;]*;|^ *ssl_.*$/gm, ''],
    [/listen 443[^;]*?( default_server)?;/g, `listen 127.0.0.1:${port}$1;`],
    [/listen 80;/g, `listen 127.0.0.1:${port + 1};`],
  ];
  const text = replacements.reduce(
    (all, [from, to]) => all.replace(from, to),
    inline(`${source}/deploy`, 'nginx-main.conf'),
  );
  writeFileSync(`${folder}/nginx.conf`, text);
  return `${folder}/nginx.conf`;
}

/** Limits a process to a share of a core, with cgroups of version 1 or 2, as root. Returns a function for after its end. */
export function limitShare(pid: number, percent: number): () => void {
  const isOld = existsSync('/sys/fs/cgroup/cpu');
  const group = `/sys/fs/cgroup/${isOld ? 'cpu/' : ''}animal-bench-${pid}`;
  const write = (name: string, value: unknown) => writeFileSync(`${group}/${name}`, `${value}`);
  mkdirSync(group);
  if (isOld) write('cpu.cfs_period_us', 10_000);
  write(isOld ? 'cpu.cfs_quota_us' : 'cpu.max', percent * 100 + (isOld ? '' : ' 10000'));
  write('cgroup.procs', pid);
  return () => rmdirSync(group);
}
