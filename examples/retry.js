/** Adds an animal exactly once, even if responses are lost. */
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';

const { KEY, BASE_URL = 'http://127.0.0.1:3000/v1' } = process.env;
const usage = 'Usage: KEY=YOUR_API_KEY npx node examples/retry.js NAME CATEGORY_ID';
const attempts = 6;

function end(sentence, exitCode) {
  console.error(sentence);
  process.exit(exitCode);
}

if (Number.parseInt(process.versions.node, 10) < 24)
  end(`This example needs Node 24 or later, and this is ${process.version}.\n${usage}`, 2);
const [name, categoryId, ...more] = process.argv.slice(2);
if (!KEY || !/^-?\d+$/.test(categoryId) || more.length > 0) end(usage, 2);

/** Whether to retry: the outcome is unknown, or the server asks the client to try later. */
const isUnsettled = ({ status }) => status >= 500 || status === 429 || status === 408;

/** Errors of a request whose connection was never made. */
const notSent = ['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'EHOSTUNREACH', 'ENETUNREACH', 'UND_ERR_CONNECT_TIMEOUT'];

/** Sends the same body with the same Idempotency-Key until the outcome is known. */
async function add(body) {
  const headers = {
    authorization: `Bearer ${KEY}`,
    'content-type': 'application/json',
    'idempotency-key': randomUUID(),
  };
  let isUnknown = false;
  for (let attempt = 1; ; attempt += 1) {
    let waitMs = 100 * 2 ** attempt * (0.5 + Math.random() / 2);
    try {
      const response = await fetch(`${BASE_URL}/pets`, {
        method: 'POST',
        headers,
        body,
        signal: AbortSignal.timeout(10_000),
      });
      const text = await response.text();
      if (!isUnsettled(response) || attempt === attempts) return { response, text };
      if (response.status >= 500) isUnknown = true;
      waitMs = Math.max(waitMs, 1000 * (Number(response.headers.get('retry-after')) || 0));
      console.error(`Attempt ${attempt}: the response is ${response.status}.`);
    } catch (error) {
      const reason = error.cause?.code ?? error.cause?.message ?? error.message;
      // Disconnected, also in the middle of the response, or timed out: the animal may have been added. Without a connection, nothing was sent.
      if (!notSent.includes(reason)) isUnknown = true;
      console.error(
        `Attempt ${attempt}: ${notSent.includes(reason) ? 'nothing was sent' : 'the outcome is unknown'} (${reason}).`,
      );
      if (attempt === attempts)
        end(
          `${BASE_URL} does not answer: ${reason}. ${isUnknown ? 'The animal may have been added.' : 'Nothing was added.'}`,
          1,
        );
    }
    console.error(`Next attempt in ${Math.round(waitMs)} ms.`);
    await sleep(waitMs);
  }
}

// BigInt, because a JavaScript number would round a categoryId beyond 2^53.
const { response, text } = await add(`{"name": ${JSON.stringify(name)}, "categoryId": ${BigInt(categoryId)}}`);
const replayed = response.headers.get('idempotent-replayed') === 'true' ? ' (the response to an earlier attempt)' : '';
console.log(`${response.status}${replayed}: ${text}`);
process.exitCode = response.ok ? 0 : 1;
