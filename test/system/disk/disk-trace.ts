/** Parses the strace log of a server: each change to the store's files and each 201, in the order in which they took effect. */
import { readFileSync } from 'node:fs';

/** Lines of the trace where a call began and ended. A call in progress when the process ended has an infinite `done`. */
interface Span {
  begun: number;
  done: number;
}

export type Change =
  | { kind: 'create' | 'remove' | 'sync'; file: string }
  | { kind: 'write'; file: string; offset: number; bytes: Buffer }
  | { kind: 'truncate'; file: string; size: number };

/** Names and ids of the pets in 201 responses that the server began to send. */
type Promised = { kind: 'answer'; promised: [name: string, id: number][] };

export type DiskEvent = (Change | Promised) & Span;

const text = '"((?:\\\\x..)*)"';
const fd = '(?:\\d+|AT_FDCWD)<([^>]*)>(?:\\(deleted\\))?';

const decode = (hex = '') => Buffer.from(hex.replaceAll('\\x', ''), 'hex');
const decodePath = (hex?: string) => decode(hex).toString();

/** A call → its effect. It may be cut off by the end of the process. A failed sync has no effect. */
const effects: [call: string, effect: (parts: string[]) => Change][] = [
  [
    `pwrite64\\(${fd}, ${text}, \\d+, (\\d+)(?:\\) += (\\d+))?`,
    ([file, hex, offset, written]) => {
      const bytes = decode(hex).subarray(0, written === undefined ? undefined : Number(written));
      return { kind: 'write', file: decodePath(file), offset: Number(offset), bytes };
    },
  ],
  [`(?:fsync|fdatasync)\\(${fd}\\) += 0`, ([file]) => ({ kind: 'sync', file: decodePath(file) })],
  [
    `ftruncate\\(${fd}, (\\d+)(?:\\) += 0)?`,
    ([file, size]) => ({ kind: 'truncate', file: decodePath(file), size: Number(size) }),
  ],
  [
    `openat\\(${fd}, ${text}, [^)]*O_CREAT[^)]*\\) += \\d+<([^>]*)>`,
    ([, , file]) => ({ kind: 'create', file: decodePath(file) }),
  ],
  [`unlink\\(${text}\\) += 0`, ([file]) => ({ kind: 'remove', file: decodePath(file) })],
];
const forms = effects.map(([call, effect]) => [new RegExp(`^${call}`), effect] as const);

function effectOf(call: string): Change | Promised | undefined {
  if (/"\.\.\./.test(call)) throw new Error(`strace has truncated ${call.slice(0, 100)}`);
  for (const [form, effect] of forms) {
    const [whole, ...parts] = form.exec(call) ?? [];
    if (whole !== undefined) return effect(parts);
  }
  if (!/^writev?\(/.test(call)) return undefined;
  const sent = Buffer.concat([...call.matchAll(new RegExp(text, 'g'))].map(([, hex]) => decode(hex))).toString();
  const promised = [...sent.matchAll(/HTTP\/1\.1 201 [^{]+(\{[^}]+\})/g)].map(([, body = '']) => JSON.parse(body));
  if (promised.length === 0) return undefined;
  return { kind: 'answer', promised: promised.map(({ name, id }) => [name, id]) };
}

/** All calls in a log of `strace -f -y`, each with the lines where it began and ended. */
export function* callsIn(log: string): Generator<{ call: string } & Span> {
  const unfinished = new Map<string, { call: string; begun: number }>();
  for (const [place, line] of readFileSync(log, 'latin1').split('\n').entries()) {
    const [, thread = '', rest = ''] = /^(\d+) +(.*)$/.exec(line) ?? [];
    const resumed = /^<\.\.\. \w+ resumed>/.exec(rest);
    if (rest.endsWith('<unfinished ...>')) {
      unfinished.set(thread, { call: rest.slice(0, -'<unfinished ...>'.length).trimEnd(), begun: place });
    } else if (resumed) {
      const { call, begun } = unfinished.get(thread) as { call: string; begun: number };
      unfinished.delete(thread);
      yield { call: call + rest.slice(resumed[0].length), begun, done: place };
    } else yield { call: rest, begun: place, done: place };
  }
  for (const { call, begun } of unfinished.values()) yield { call, begun, done: Number.POSITIVE_INFINITY };
}

/**
 * All changes to `folder` and its files, and all 201 responses. A change may be on disk, and a response at its client, as soon as
 * the call begins; a sync takes effect only when the call ends.
 */
export function readTrace(log: string, folder: string): DiskEvent[] {
  const events: DiskEvent[] = [];
  for (const { call, begun, done } of callsIn(log)) {
    const event = effectOf(call);
    if (!event || ('file' in event && event.file !== folder && !event.file.startsWith(`${folder}/`))) continue;
    events.push({ ...event, begun, done });
  }
  const effective = ({ kind, begun, done }: DiskEvent) => (kind === 'sync' ? done : begun);
  return events.sort((one, other) => effective(one) - effective(other));
}
