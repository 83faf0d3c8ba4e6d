/**
 * A client of constant rate: sends each request when it is due, whether or not the earlier ones were answered, as many independent clients
 * together do. It opens connections as it needs them, up to a number. argv: the task, as JSON. Prints an Answers as JSON.
 */
import { connect, type Socket } from 'node:net';

export interface OpenLoop {
  port: number;
  key: string;
  work: 'create' | 'random';
  rows: number;
  /** Requests per second. 0: each connection sends its next request when the last one is answered. */
  rate: number;
  seconds: number;
  connections: number;
}

/** A rate is per second of the load. A request that is reset, or not answered 3 seconds after the load, counts as infinitely late. */
export interface Answers {
  /** 2xx. */
  good: number;
  /** 2xx within 500 ms of the time when the request was sent. */
  fromSending: number;
  /** 2xx within 500 ms of the time when the request was due, which is earlier if all connections were busy. */
  fromSchedule: number;
  refused: number;
  /** Requests that were reset, or never answered. */
  lost: number;
  /** 99th percentile of the time from sending to the answer, 503 included, in milliseconds; null if infinite. */
  p99: number | null;
  /** Requests that were sent more than 50 ms late although a connection was free. If any were, the client itself was too slow. */
  late: number;
}

interface Connection {
  socket: Socket;
  busy: boolean;
  dueAt: number;
  sentAt: number;
  /** What has arrived of the response. */
  text: string;
}

const soonMs = 500;
const graceMs = 3000;
/** One in so many requests asks the server to close its connection, so that new connections are a part of every load. */
const closeEvery = 100;

const task = JSON.parse(process.argv[2] as string) as OpenLoop;
const headers = `Host: localhost\r\nAuthorization: Bearer ${task.key}\r\n`;
const body = '{"name":"Biscuit","categoryId":7}';
const create = `POST /v1/pets HTTP/1.1\r\n${headers}Content-Type: application/json\r\nContent-Length: ${body.length}\r\n`;
const pages = Array.from({ length: 5000 }, () => {
  const cursor = Buffer.from(`after:${Math.ceil(Math.random() * task.rows)}`).toString('base64url');
  return `GET /v1/pets?limit=${Math.ceil(Math.random() * 40)}&cursor=${cursor} HTTP/1.1\r\n${headers}`;
});

const begun = performance.now();
const endsAt = begun + task.seconds * 1000;
const free: Connection[] = [];
const times: number[] = [];
/** When the requests were due that wait for a connection, and how many of them have got one. */
const due: number[] = [];
let taken = 0;
let sent = 0;
let open = 0;
const found = { good: 0, fromSending: 0, fromSchedule: 0, refused: 0, late: 0 };

function send(connection: Connection, dueAt: number): void {
  sent += 1;
  const last = sent % closeEvery === 0 ? 'Connection: close\r\n' : '';
  const start = task.work === 'create' ? create : (pages[sent % pages.length] as string);
  connection.busy = true;
  connection.dueAt = dueAt;
  connection.sentAt = performance.now();
  connection.socket.write(`${start}${last}\r\n${task.work === 'create' ? body : ''}`, 'latin1');
}

function answered(connection: Connection, status: number, isLast: boolean): void {
  const { dueAt, sentAt } = connection;
  const now = performance.now();
  connection.busy = false;
  times.push(now - sentAt);
  if (status >= 300) found.refused += 1;
  else {
    found.good += 1;
    if (now - sentAt < soonMs) found.fromSending += 1;
    if (now - dueAt < soonMs) found.fromSchedule += 1;
  }
  if (isLast) return;
  if (now >= endsAt) free.push(connection);
  else if (task.rate === 0) send(connection, now);
  else if (taken < due.length) send(connection, due[taken++] as number);
  else free.push(connection);
}

/** A connection has one request at a time. */
function read(connection: Connection, bytes: string): void {
  connection.text += bytes;
  const end = connection.text.indexOf('\r\n\r\n');
  const head = connection.text.slice(0, end);
  const length = Number(/content-length: (\d+)/i.exec(head)?.[1] ?? 0);
  if (end === -1 || connection.text.length < end + 4 + length) return;
  connection.text = '';
  if (connection.busy) answered(connection, Number(head.slice(9, 12)), /connection: close/i.test(head));
}

/** The connections share it: what has arrived is read at once. */
const buffer = Buffer.alloc(64 * 1024);

function openConnection(): Connection {
  open += 1;
  const callback = (bytes: number) => {
    read(connection, buffer.toString('latin1', 0, bytes));
    return true;
  };
  const socket = connect({ port: task.port, host: '127.0.0.1', noDelay: true, onread: { buffer, callback } });
  const connection: Connection = { socket, busy: false, dueAt: 0, sentAt: 0, text: '' };
  socket.on('error', () => undefined);
  socket.on('close', () => {
    open -= 1;
    if (free.includes(connection)) free.splice(free.indexOf(connection), 1);
    if (connection.busy) times.push(Number.POSITIVE_INFINITY);
    connection.busy = false;
    if (task.rate === 0 && performance.now() < endsAt) send(openConnection(), performance.now());
  });
  return connection;
}

/** Uses the elapsed time, so that a late timer does not lower the rate. */
function sendDue(now: number): void {
  const until = Math.floor(((Math.min(now, endsAt) - begun) / 1000) * task.rate);
  for (; scheduled < until; scheduled++) {
    const dueAt = begun + (scheduled / task.rate) * 1000;
    const connection = free.pop() ?? (open < task.connections ? openConnection() : undefined);
    if (connection === undefined) due.push(dueAt);
    else {
      if (now - dueAt > 50) found.late += 1;
      send(connection, dueAt);
    }
  }
}

let scheduled = 0;
if (task.rate === 0)
  for (let opened = 0; opened < task.connections; opened++) send(openConnection(), performance.now());
const timer = setInterval(() => sendDue(performance.now()), 1);
await new Promise((resolve) => setTimeout(resolve, task.seconds * 1000));
clearInterval(timer);
await new Promise((resolve) => setTimeout(resolve, graceMs));
const sorted = times.concat(Array(sent - times.length).fill(Number.POSITIVE_INFINITY)).sort((a, b) => a - b);
const p99 = sorted[Math.floor(sorted.length * 0.99)] as number;
const perSecond = (count: number) => Math.round(count / task.seconds);
const answers: Answers = {
  good: perSecond(found.good),
  fromSending: perSecond(found.fromSending),
  fromSchedule: perSecond(found.fromSchedule),
  refused: perSecond(found.refused),
  lost: sorted.filter((time) => time === Number.POSITIVE_INFINITY).length,
  p99: Number.isFinite(p99) ? Math.round(p99) : null,
  late: found.late,
};
process.stdout.write(`${JSON.stringify(answers)}\n`);
process.exit();
