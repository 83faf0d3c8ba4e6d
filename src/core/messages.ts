/** The messages of the quickstart, which is separate from the animal store: their schemas and the interface of a store. */
import { type Static, Type } from '@sinclair/typebox';
import type { KeyRejection } from './accounts.ts';
import { isStorable, kind } from './schema.ts';

const MessageText = kind<string>('MessageText', isStorable, 'be a string without NUL and without lone surrogates', {
  type: 'string',
  pattern: '^[^\\x00]*$',
  description: 'The text to send.',
  examples: ['Hello'],
});

export const NewMessage = Type.Object(
  { message: MessageText },
  { title: 'NewMessage', description: 'A message to send.', additionalProperties: false },
);
export type NewMessage = Static<typeof NewMessage>;

export const Message = Type.Object(
  {
    id: Type.String({ description: 'Unique identifier.', examples: ['msg_5f0c2d1e8a7b4c3d9e6f1a2b3c4d5e6f'] }),
    message: Type.String({ description: 'The text as received.', examples: ['Hello'] }),
    status: Type.String({
      description: 'Whether the request was merely queued. More values may be added.',
      examples: ['queued'],
    }),
    createdAt: Type.String({
      format: 'date-time',
      description: 'When the message was received (ISO 8601, UTC).',
      examples: ['2026-11-21T09:30:00.000Z'],
    }),
  },
  { title: 'Message', description: 'A received message.' },
);
export type Message = Static<typeof Message>;

export interface Messages {
  /**
   * Resolves only when the message is on disk; or, if nothing was added, to the reason: the key has ended, or the account has reached its limit of
   * messages (limits.ts) until `fullUntil`, in milliseconds. `keyId`: the API key that adds it, which is checked again; undefined: the operator. Rejects with ApiError `service_unavailable` if it cannot be stored.
   */
  add(
    message: Message & { accountId: number },
    keyId?: number,
  ): Promise<KeyRejection | { fullUntil: number } | undefined>;
}
