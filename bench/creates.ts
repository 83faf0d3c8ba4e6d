/**
 * Creates animals at a steady pace, until SIGTERM or for `seconds` at most, as a process of its own. argv: what to do, as JSON.
 * Prints a line when the first is created, and at the end the number of creates that were not answered 201.
 */
import { Pool } from 'undici';

interface Task {
  url: string;
  headers: Record<string, string>;
  body: string;
  perSecond: number;
  seconds: number;
}

const { url, headers, body, perSecond, seconds } = JSON.parse(process.argv[2] as string) as Task;
const pool = new Pool(url, { connections: 8 });

async function create(): Promise<boolean> {
  try {
    const answer = await pool.request({ path: '/v1/pets', method: 'POST', headers, body });
    await answer.body.dump();
    return answer.statusCode === 201;
  } catch {
    return false;
  }
}

const outcomes = [create()];
await outcomes[0];
process.stdout.write('begun\n');

const begun = performance.now();
// Counted by the clock: a timer that fires late must not slow the pace.
const timer = setInterval(() => {
  const due = ((performance.now() - begun) / 1000) * perSecond;
  while (outcomes.length < due) outcomes.push(create());
}, 2);
await new Promise((resolve) => {
  process.once('SIGTERM', resolve);
  setTimeout(resolve, seconds * 1000).unref();
});
clearInterval(timer);
const created = await Promise.all(outcomes);
process.stdout.write(`${created.filter((done) => !done).length}\n`);
await pool.close();
