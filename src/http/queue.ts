/** A fair queue: the flow that has spent least time is next. A request that has waited for `limits.queueMs` is refused. */
import type { FastifyReply } from 'fastify';
import { limits } from '../core/limits.ts';

export interface Flow {
  /** Milliseconds of the event loop that its requests took recently. */
  spentMs: number;
  /** The newest is last. */
  waiting: { since: number; reply: FastifyReply; run: () => void }[];
}

/** How long a turn of the event loop serves requests before it holds the others. */
const turnMs = 10;

/** Returns a function that calls `run` in this turn of the event loop, or later when `flow` is next; or that refuses the request. */
export function createQueue(refuse: (reply: FastifyReply) => void) {
  /** The flows with waiting requests. */
  const flows = new Set<Flow>();
  /** When this turn of the event loop served its first request. */
  let begun: number | undefined;

  /** At the end of a turn: serves the newest request of the flow that has spent least, until the time is over; then refuses requests that have waited too long. */
  function serveWaiting(): void {
    begun = undefined;
    if (flows.size === 0) return;
    const start = performance.now();
    const order = [...flows].sort((one, other) => one.spentMs - other.spentMs);
    for (let now = start; order.length > 0 && now < start + turnMs; now = performance.now()) {
      const flow = order.shift() as Flow;
      const { reply, run } = flow.waiting.pop() as Flow['waiting'][0];
      // If it is destroyed, the client is gone.
      if (!reply.raw.destroyed) run();
      flow.spentMs += performance.now() - now;
      if (flow.waiting.length === 0) {
        flows.delete(flow);
        continue;
      }
      const at = order.findIndex(({ spentMs }) => spentMs > flow.spentMs);
      order.splice(at === -1 ? order.length : at, 0, flow);
    }
    for (const flow of order) refuseOld(flow, start);
    if (flows.size > 0) beginTurn(start);
  }

  function refuseOld(flow: Flow, now: number): void {
    const kept = flow.waiting.findIndex(({ since, reply }) => now - since <= limits.queueMs && !reply.raw.destroyed);
    const old = flow.waiting.splice(0, kept === -1 ? flow.waiting.length : kept);
    for (const { reply } of old) if (!reply.raw.destroyed) refuse(reply);
    if (flow.waiting.length === 0) flows.delete(flow);
  }

  function beginTurn(now: number): void {
    if (begun === undefined) setImmediate(serveWaiting);
    begun ??= now;
  }

  return (flow: Flow, reply: FastifyReply, run: () => void): void => {
    const now = performance.now();
    beginTurn(now);
    if (flows.size === 0 && now - (begun as number) < turnMs) {
      run();
      flow.spentMs += performance.now() - now;
    } else {
      flows.add(flow);
      flow.waiting.push({ since: now, reply, run });
    }
  };
}
