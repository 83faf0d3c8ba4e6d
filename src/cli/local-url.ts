/** The address of a server on this machine, by its settings. */

/** The URL without a path. A server that listens on every interface is reached through the loopback interface. */
export function localUrl(host: string, port: number | string): string {
  const name = { '0.0.0.0': '127.0.0.1', '::': '::1' }[host] ?? host;
  return `http://${name.includes(':') ? `[${name}]` : name}:${port}`;
}
