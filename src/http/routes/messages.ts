/** The messages quickstart: its own scope, beside the animal store and with the same keys. */
import { randomUUID } from 'node:crypto';
import type { ApiKey } from '../../accounts.ts';
import { ApiError } from '../../errors.ts';
import { Message, type Messages, NewMessage } from '../../messages.ts';
import { type SendError, toApiError } from '../errors.ts';
import type { Exchanges } from '../exchange.ts';
import { refuseOtherMethods } from '../methods.ts';
import type { App } from '../operation.ts';
import { bodyErrors } from '../operation.ts';
import { sendOutcome } from '../responses.ts';

export interface MessagesOptions {
  messages: Messages;
  exchanges: Exchanges;
  sendError: SendError;
  now: () => Date;
}

export function messageRoutes(app: App, { messages, exchanges, sendError, now }: MessagesOptions): void {
  // The quickstart's own table answers 400 where the animal store answers 415.
  app.setErrorHandler((error, request, reply) => {
    const failure = toApiError(error);
    const unsupported = failure.code === 'unsupported_media_type';
    sendError(unsupported ? new ApiError('invalid_body', failure.message) : failure, request, reply);
  });

  app.post(
    '/messages',
    {
      schema: { body: NewMessage },
      config: {
        operation: {
          operationId: 'sendMessage',
          tags: ['Messages'],
          summary: 'Send a message',
          description: 'The message is on disk when the answer is sent; status tells that it was merely queued.',
          success: { status: 202, schema: Message, description: 'The message was received.' },
          errors: bodyErrors,
        },
      },
    },
    async (request, reply) => {
      const { accountId } = request.apiKey as ApiKey;
      const id = `msg_${randomUUID().replaceAll('-', '')}`;
      const message: Message = { id, message: request.body.message, status: 'queued', createdAt: now().toISOString() };
      await exchanges.work(request.exchange, () => messages.add({ ...message, accountId }));
      sendOutcome(reply, 202, JSON.stringify(message));
    },
  );
  refuseOtherMethods(app, '/messages', ['POST']);
}
