/** The Prism proxy, as a process of its own before recorded answers. */
import { execFileSync } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { Agent, request } from 'undici';
import { onTestFinished } from 'vitest';
import type { Exchange } from '../support/exchanges.ts';
import { findPort } from '../support/known-port.ts';
import { launch } from '../support/process.ts';
import { projectFolder } from '../support/project.ts';
import { startReplay, ticketHeader } from './replay.ts';

/** Fetched for the moment: it would add 136 packages to those that every check-out installs. */
function locatePrism(): string {
  const args = [
    'exec',
    '--yes',
    '--ignore-scripts',
    '--package=@stoplight/prism-cli@5.16.0',
    '--call=command -v prism',
  ];
  return execFileSync('npm', args, { cwd: projectFolder, encoding: 'utf8' }).trimEnd();
}

export interface Violation {
  /** Begins with request or response. */
  location: string[];
  severity: string;
  code?: string | number;
  message: string;
}

interface Verdict {
  /** Whether Prism itself passed the answer on: it replaces some, and refuses some requests. */
  passed: boolean;
  violations: Violation[];
}

/** Requests that one Prism is given at a time. */
export const sideBySide = 4;

export interface Prism {
  /** Sends the request of an exchange through Prism, to its answer. */
  judge: (exchange: Exchange) => Promise<Verdict>;
}

/** Absent: none. Of a long list Prism cuts off the end, and says so before what is left. */
function readViolations(header: string | undefined): Violation[] {
  const long = /^Too many violations! (.*\}),\{/s.exec(header ?? '');
  return JSON.parse(long ? `${long[1]}]` : (header ?? '[]'));
}

/** `prism proxy` for a document whose base path is `prefix`; ends with the test. */
export async function startPrism(document: string, prefix: string): Promise<Prism> {
  const replay = await startReplay();
  const port = await findPort();
  // Without its own CORS, it would answer some OPTIONS by itself, and add headers to answers.
  const args = [
    'proxy',
    `${projectFolder}${document}`,
    replay.url + prefix,
    `--port=${port}`,
    '--cors=false',
    '-v=fatal',
  ];
  const prism = launch(process.execPath, [locatePrism(), ...args], { measured: false });
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
    async judge(exchange) {
      const { status, violations, fetched } = await send(exchange).catch((error) => {
        throw new Error(`no answer of Prism to ${JSON.stringify(exchange)}`, { cause: error });
      });
      return { passed: fetched && status === exchange.answer.status, violations: readViolations(violations) };
    },
  };
}
