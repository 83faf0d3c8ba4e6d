/** Formats log lines for a developer's terminal. */
import type { PrettyOptions } from 'pino-pretty';

/**
 * Resolves to a function that formats one line of JSON, which ends with a line feed. The result does too; an error's stack has lines of its own.
 * Undefined if the development dependency pino-pretty is not installed.
 */
export async function terminalFormat() {
  const pretty = await import('pino-pretty').catch(() => undefined);
  if (!pretty) return undefined;
  const { isColorSupported, prettyFactory } = pretty.default;
  const common: PrettyOptions = { colorize: isColorSupported, singleLine: true, translateTime: 'SYS:HH:MM:ss' };
  const other = prettyFactory({ ...common, ignore: 'pid,hostname' });
  const request = prettyFactory({
    ...common,
    ignore: 'pid,hostname,method,route,status,ms',
    messageFormat: ({ method, route, status, ms }) =>
      [method, route ?? '(no route)', status, ...(ms === undefined ? [] : [`${ms} ms`])].filter(Boolean).join(' '),
  });
  return (line: string) => (line.endsWith('"msg":"request"}\n') ? request : other)(line) ?? '';
}
