/** The table of commands: every change except those of animals, written once for both engines. Their inputs and outcomes cross threads as JSON. */
import { addAccount, removeAccount } from './commands/accounts.ts';
import { addKey, changeKey, revokeKey, rotateKey } from './commands/keys.ts';
import { addMessage } from './commands/messages.ts';
import { addLink, setPassword, signUp } from './commands/people.ts';
import { addSession, endSession, endSessions, touchSession } from './commands/sessions.ts';
import { recordUses } from './commands/usage.ts';
import type { Steps } from './steps.ts';

export const commands = {
  addAccount,
  removeAccount,
  addKey,
  changeKey,
  revokeKey,
  rotateKey,
  recordUses,
  signUp,
  setPassword,
  addLink,
  addSession,
  touchSession,
  endSession,
  endSessions,
  addMessage,
};

export type CommandName = keyof typeof commands;
export type Input<Name extends CommandName> = Parameters<(typeof commands)[Name]>[0];
export type Outcome<Name extends CommandName> =
  ReturnType<(typeof commands)[Name]> extends Steps<infer Result> ? Result : never;

/** The same table, in a form in which TypeScript knows that a command and its input belong together. */
const table: { [Name in CommandName]: (input: Input<Name>) => Steps<Outcome<Name>> } = commands;

/** The statements of a command. */
export function stepsOf<Name extends CommandName>(name: Name, input: Input<Name>): Steps<Outcome<Name>> {
  return table[name](input);
}
