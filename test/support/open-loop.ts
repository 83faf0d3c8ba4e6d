/**
 * A client of constant rate: sends each request when it is due, whether or not the earlier ones were answered, as many independent clients
 * together do. It opens connections as it needs them, up to a number. argv: the task, as JSON. Prints Answers as JSON.
 */
import { connect } from 'node:net';

export interface Task {
  port: number;
  /** A request, in which {key}, {limit}, {cursor} and {number} are replaced: limits from 1 to 40, cursors of 10,000 animals, numbers of eight digits. */
  request: string;
  /** Each connection takes the next key, and the next of so many addresses 127.0.`network`.1 and so on. */
  keys: string[];
  addresses: number;
  network: number;
  connections: number;
  /** Requests per second. 0: each connection sends its next request when the last one is answered. */
  rate: number;
  seconds: number;
  /** Whether a connection reads at most 64 KiB a second. */
  slow?: boolean;
}

/** Times are in milliseconds since the request was due; null if there are none. */
export interface Answers {
  /** 2xx. */
  good: number;
  /** 2xx within 500 ms. */
  soon: number;
  p50: number | null;
  p99: number | null;
  /** Any other status. */
  refused: number;
  refusedP99: number | null;
  /** Requests that were reset, or not answered 3 s after the end. */
  lost: number;
  /** Requests sent more than 50 ms late although a connection was free. If there are any, this client is too slow. */
  late: number;
}

const { port, request, keys, addresses, network, connections, rate, seconds, slow }: Task = JSON.parse(
  process.argv[2] as string,
);
const begun = performance.now();
const endsAt = begun + seconds * 1000;
const good: number[] = [];
const refused: number[] = [];
/** Connections without a request, each as the function that sends one. */
const free: ((due: number) => void)[] = [];
/** When the requests were due that wait for a connection. */
const waiting: number[] = [];
let [opened, open, scheduled, sent, late] = [0, 0, 0, 0, 0];

const upTo = (most: number) => Math.ceil(Math.random() * most);
const values: Record<string, () => string | number> = {
  limit: () => upTo(40),
  cursor: () => Buffer.from(`after:${upTo(10_000)}`).toString('base64url'),
  number: () => 10_000_000 + sent,
};

/** The connections share it: what has arrived is read at once. */
const buffer = Buffer.alloc(64 * 1024);

function openConnection(): (due: number) => void {
  let text = '';
  let dueAt: number | undefined;
  const localAddress = `127.0.${network}.${1 + (opened % addresses)}`;
  const own = request.replace('{key}', keys[opened++ % keys.length] as string);
  open += 1;
  function send(due: number) {
    sent += 1;
    dueAt = due;
    socket.write(own.replaceAll(/\{(\w+)\}/g, (_, name) => `${values[name]?.()}`));
  }
  function read() {
    const end = text.indexOf('\r\n\r\n');
    const head = text.slice(0, end);
    const length = Number(/content-length: (\d+)/i.exec(head)?.[1] ?? 0);
    if (end === -1 || text.length < end + 4 + length) return;
    text = '';
    if (dueAt === undefined) return;
    const now = performance.now();
    (head[9] === '2' ? good : refused).push(now - dueAt);
    dueAt = undefined;
    if (/connection: close/i.test(head)) return;
    const due = now > endsAt ? undefined : rate === 0 ? now : waiting.shift();
    if (due === undefined) free.push(send);
    else send(due);
  }
  const callback = (bytes: number) => {
    text += buffer.toString('latin1', 0, bytes);
    read();
    if (slow) setTimeout(() => socket.resume(), 1000);
    return !slow;
  };
  const socket = connect({ port, host: '127.0.0.1', localAddress, noDelay: true, onread: { buffer, callback } });
  socket.on('error', () => undefined);
  socket.on('close', () => {
    open -= 1;
    dueAt = undefined;
    if (free.includes(send)) free.splice(free.indexOf(send), 1);
    if (rate === 0 && performance.now() < endsAt) openConnection()(performance.now());
  });
  return send;
}

/** Uses the elapsed time, so that a late timer does not lower the rate. */
function sendDue() {
  const now = performance.now();
  const until = ((Math.min(now, endsAt) - begun) / 1000) * rate;
  for (; scheduled < Math.floor(until); scheduled++) {
    const due = begun + ((scheduled + 1) / rate) * 1000;
    const send = free.pop() ?? (open < connections ? openConnection() : undefined);
    if (send && now - due > 50) late += 1;
    if (send) send(due);
    else waiting.push(due);
  }
}

if (rate === 0) while (opened < connections) openConnection()(begun);
const timer = setInterval(sendDue, 1);
setTimeout(() => clearInterval(timer), seconds * 1000);
await new Promise((resolve) => setTimeout(resolve, seconds * 1000 + 3000));
const at = (times: number[], share: number) =>
  times.length > 0 ? Math.round(times.sort((a, b) => a - b)[Math.floor(times.length * share)] as number) : null;
const answers: Answers = {
  good: good.length,
  soon: good.filter((time) => time < 500).length,
  p50: at(good, 0.5),
  p99: at(good, 0.99),
  refused: refused.length,
  refusedP99: at(refused, 0.99),
  lost: sent + waiting.length - good.length - refused.length,
  late,
};
process.stdout.write(JSON.stringify(answers));
process.exit();
