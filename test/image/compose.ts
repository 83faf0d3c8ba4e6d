/** Reads the services and their limits from compose.yaml. */
import { readFileSync } from 'node:fs';
import { parse } from 'yaml';
import { projectFolder } from './engine.ts';

export interface Service {
  image: string;
  build?: object;
  environment: Record<string, string>;
  ports: string[];
  volumes: string[];
  read_only: boolean;
  cap_drop: string[];
  security_opt: string[];
  cpus: number;
  mem_limit: string;
  memswap_limit: string;
  pids_limit: number;
  stop_grace_period: string;
}

export interface Composition {
  services: Record<'production' | 'staging', Service>;
  volumes: Record<string, unknown>;
}

export function readComposition(): Composition {
  return parse(readFileSync(`${projectFolder}compose.yaml`, 'utf8'), { merge: true }) as Composition;
}

/** A service's limits as options of `docker run`. */
export function limitsOf(service: Service): string[] {
  return [
    ...(service.read_only ? ['--read-only'] : []),
    ...service.cap_drop.flatMap((capability) => ['--cap-drop', capability]),
    ...service.security_opt.flatMap((option) => ['--security-opt', option.replace(/:true$/, '')]),
    ...['--cpus', String(service.cpus)],
    ...['--memory', service.mem_limit, '--memory-swap', service.memswap_limit],
    ...['--pids-limit', String(service.pids_limit)],
    ...['--stop-timeout', String(Number.parseInt(service.stop_grace_period, 10))],
  ];
}
