/** Formats log lines for a developer's terminal. */
import type { PrettyOptions } from 'pino-pretty';
import { settings } from '../config.ts';

/** What pages load: each would be a line. */
const asset = /^\/docs\/\w+\.\w+$/;

const defaults = Object.fromEntries(
  Object.entries(settings.properties).map(([name, { default: value }]) => [name, value]),
);

/**
 * Resolves to a function that formats one line of JSON, which ends with a line feed. The result does too, or is empty; an error's stack has lines of its
 * own. Undefined if the development dependency pino-pretty is not installed.
 */
export async function terminalFormat() {
  const pretty = await import('pino-pretty').catch(() => undefined);
  if (!pretty) return undefined;
  const { isColorSupported, prettyFactory } = pretty.default;
  const common: PrettyOptions = { colorize: isColorSupported, singleLine: true, translateTime: 'SYS:HH:MM:ss' };
  const other = prettyFactory({ ...common, ignore: 'pid,hostname' });
  const start = prettyFactory({ ...common, ignore: 'pid,hostname,version,revision,settings' });
  const colours: Record<string, number> = { 2: 32, 3: 36, 4: 33, 5: 31 };
  const coloured = (status: number) =>
    isColorSupported ? `\x1b[${colours[String(status)[0] as string] ?? 0}m${status}\x1b[0m` : `${status}`;

  /** Time, status, method, path and milliseconds, in 100 columns; the id only of an error. */
  function requestLine(line: string): string {
    const { time, method = '', route, path, status, ms = 0, reqId } = JSON.parse(line);
    if (asset.test(route) && status < 400) return '';
    const at = new Date(time).toTimeString().slice(0, 8);
    const where = String(route ?? path ?? '(no route)');
    const room = status < 400 ? 66 : 32;
    const shown = where.length > room ? `${where.slice(0, room - 1)}…` : where;
    return `${at} ${coloured(status)} ${method} ${shown} ${ms} ms${status < 400 ? '' : ` ${reqId}`}\n`;
  }

  /** The release, and the settings that differ from their defaults, one a line. */
  function startLines(line: string): string {
    const { version, revision, settings: all } = JSON.parse(line);
    const changed = Object.entries(all).filter(([name, value]) => value !== defaults[name]);
    const rows = changed.map(([name, value]) => `  ${name}=${value}\n`);
    return `${(start(line) ?? '').trimEnd()} ${version}${revision ? ` (${revision})` : ''}\n${rows.join('')}`;
  }

  return (line: string) => {
    if (line.endsWith('"msg":"request"}\n')) return requestLine(line);
    if (line.endsWith('"msg":"starting"}\n')) return startLines(line);
    return other(line) ?? '';
  };
}
