/** Runs one round of load with autocannon, in a separate process that can be pinned to its own core. argv: the file of the task, as JSON. */
import { readFileSync } from 'node:fs';
import autocannon from 'autocannon';
import type { Round, Workload } from './load.ts';

interface Task {
  url: string;
  seconds: number;
  connections: number;
  workload: Workload;
  headers: Record<string, string>;
  body: string;
}

const { url, seconds, connections, workload, headers, body } = JSON.parse(
  readFileSync(process.argv[2] as string, 'utf8'),
) as Task;
const { starts, ends, method = 'GET', withoutKey } = workload;
const draw = (values: string[]) => values[Math.floor(Math.random() * values.length)] as string;
const fixed = starts.length * ends.length === 1;

const result = await autocannon({
  url,
  connections,
  duration: seconds,
  method,
  headers,
  ...(method === 'POST' && { body }),
  requests: [
    fixed
      ? { path: draw(starts) + draw(ends) }
      : { setupRequest: (request) => ({ ...request, path: draw(starts) + draw(ends) }) },
  ],
});
const expected = withoutKey ? result['4xx'] : result['2xx'];
const round: Round = {
  requestsPerSecond: result.requests.average,
  failures: result.requests.total - expected + result.errors,
};
process.stdout.write(JSON.stringify(round));
