/** The messages quickstart: separate from the animal store, but with the same API keys. */
import { randomUUID } from 'node:crypto';
import { ApiError } from '../core/errors.ts';
import { inDigits, limits } from '../core/limits.ts';
import { Message, NewMessage } from '../core/messages.ts';
import { keyOf, rejectedKey } from '../http/auth.ts';
import { rateLimited, sendError, toApiError } from '../http/errors.ts';
import { type App, bodyErrors, type Operation } from '../http/operation.ts';

const sending: Operation = {
  operationId: 'sendMessage',
  tags: ['Messages'],
  summary: 'Send a message',
  description: `The message is on disk before the response is sent. Its status is queued. No scope is needed. An account can send ${inDigits(limits.messages)} messages in 24 hours; then 429 \`rate_limited\`. A body that is not \`application/json\` in UTF-8 returns 400 \`invalid_body\`.`,
  success: { status: 202, schema: Message, description: 'The message was received.' },
  errors: bodyErrors,
  examples: {
    hello: {
      summary: 'A message',
      body: { message: 'Hello' },
      answer: {
        id: 'msg_5f0c2d1e8a7b4c3d9e6f1a2b3c4d5e6f',
        message: 'Hello',
        status: 'queued',
        createdAt: '2026-11-21T09:30:00.000Z',
      },
    },
  },
};

/** The routes of the quickstart. They need an API key. */
export async function messages(app: App): Promise<void> {
  const { now, store } = app;
  // The quickstart specifies 400 for an unsupported media type, the animal store 415.
  app.setErrorHandler((thrown, request, reply) => {
    const error = toApiError(thrown);
    const unsupported = error.code === 'unsupported_media_type';
    sendError(unsupported ? new ApiError('invalid_body', error.message) : error, request, reply);
  });

  /** When each account can send again, by performance.now(): until then, a refusal needs no statement. */
  const full = new Map<number, number>();

  function refuseFull(accountId: number): void {
    const waitMs = (full.get(accountId) ?? 0) - performance.now();
    if (waitMs > 0) throw tooManyMessages(waitMs);
    full.delete(accountId);
  }

  app.post(
    '/messages',
    {
      schema: { body: NewMessage },
      config: { operation: sending },
    },
    async (request, reply) => {
      const { accountId, id: keyId } = keyOf(request);
      refuseFull(accountId);
      const id = `msg_${randomUUID().replaceAll('-', '')}`;
      const message: Message = {
        id,
        message: request.body.message,
        status: 'queued',
        createdAt: now().toISOString(),
      };
      const refusal = await store.messages.add({ ...message, accountId }, keyId);
      if (typeof refusal === 'string') throw rejectedKey(refusal);
      if (refusal) {
        const waitMs = refusal.fullUntil - now().getTime();
        full.set(accountId, performance.now() + waitMs);
        throw tooManyMessages(waitMs);
      }
      return reply.code(202).header('cache-control', 'no-store').send(message);
    },
  );
}

function tooManyMessages(waitMs: number) {
  const sentence = `Your account has sent ${inDigits(limits.messages)} messages in 24 hours, the most that the quickstart keeps: try again later.`;
  return rateLimited(waitMs, sentence);
}
