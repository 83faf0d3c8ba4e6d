/** Runs the Prism proxy as a separate process in front of recorded responses. */
import { setTimeout as sleep } from 'node:timers/promises';
import { Agent, request } from 'undici';
import { onTestFinished } from 'vitest';
import type { Exchange } from '../../support/exchanges.ts';
import { fetchTool } from '../../support/fetched-tool.ts';
import { findPort } from '../../support/known-port.ts';
import { launch } from '../../support/process.ts';
import { projectFolder } from '../../support/project.ts';
import { startReplay, ticketHeader } from './replay.ts';

export interface Violation {
  /** The first item is request or response. */
  location: string[];
  severity: string;
  code?: string | number;
  message: string;
}

interface Verdict {
  /** Whether Prism passed on the recorded response. It replaces some responses, and refuses some requests. */
  passed: boolean;
  violations: Violation[];
}

/** Concurrent requests to one Prism. */
export const sideBySide = 4;

export interface Prism {
  /** Sends the request of an exchange through Prism to the recorded response. */
  validate: (exchange: Exchange) => Promise<Verdict>;
}

/** Parses the header sl-violations; absent: none. Prism truncates a long list and puts a message before the rest. */
function readViolations(header: string | undefined): Violation[] {
  const long = /^Too many violations! (.*\}),\{/s.exec(header ?? '');
  return JSON.parse(long ? `${long[1]}]` : (header ?? '[]'));
}

/** Starts `prism proxy` for a document whose base path is `prefix`, until the test ends. */
export async function startPrism(document: string, prefix: string): Promise<Prism> {
  const replay = await startReplay();
  const port = await findPort();
  // With its own CORS, Prism would respond to some OPTIONS itself and add headers to responses.
  const args = [
    'proxy',
    `${projectFolder}${document}`,
    replay.url + prefix,
    `--port=${port}`,
    '--cors=false',
    '-v=fatal',
  ];
  const prism = launch(process.execPath, [fetchTool('prism', '@stoplight/prism-cli@5.16.0'), ...args], {});
  let ended: string | undefined;
  void prism.end().then(({ stdout, stderr }) => {
    ended = stdout + stderr;
  });
  const dispatcher = new Agent({ connections: sideBySide, pipelining: 1, headersTimeout: 30_000 });
  onTestFinished(() => dispatcher.destroy());

  async function send({ method, target, headers, body, answer }: Exchange) {
    const ticket = replay.hold(answer);
    const got = await request(`http://127.0.0.1:${port}${target.slice(prefix.length)}`, {
      method: method as 'GET',
      headers: { ...headers, [ticketHeader]: ticket },
      body: body === null ? null : Buffer.from(body, 'base64'),
      dispatcher,
    });
    await got.body.dump();
    return {
      status: got.statusCode,
      violations: got.headers['sl-violations'] as string | undefined,
      fetched: replay.release(ticket),
    };
  }

  const nothing = { status: 204, headers: {}, text: '' };
  const probe = { method: 'GET', target: `${prefix}/`, headers: {}, body: null, answer: nothing };
  while (!(await send(probe).catch(() => undefined))) {
    if (ended !== undefined) throw new Error(`Prism did not start: ${ended}`);
    await sleep(100);
  }

  return {
    async validate(exchange) {
      const { status, violations, fetched } = await send(exchange).catch((error) => {
        throw new Error(`no response from Prism to ${JSON.stringify(exchange)}`, { cause: error });
      });
      return { passed: fetched && status === exchange.answer.status, violations: readViolations(violations) };
    },
  };
}
