/**
 * Creates animals at a constant rate, in a separate process, until SIGTERM or for at most `seconds`. argv: the task, as JSON. Prints a line
 * when the first animal is created, and at the end the number of creates without a 201 response.
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
// Uses the elapsed time, so that a late timer does not lower the rate.
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
