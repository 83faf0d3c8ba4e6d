/** The table of commands: every change except those of animals, written once for both engines. Their inputs and outcomes cross threads as JSON. */
import * as accounts from './commands/accounts.ts';
import * as keys from './commands/keys.ts';
import * as messages from './commands/messages.ts';
import * as people from './commands/people.ts';
import * as sessions from './commands/sessions.ts';
import { recordUses } from './commands/usage.ts';
import type { Steps } from './steps.ts';

const { addAccount, removeAccount } = accounts;
const { addKey, revokeKey, rotateKey } = keys;
const { signUp, setPassword, addLink } = people;
const { addSession, touchSession, endSession, endSessions } = sessions;

export const commands = {
  ...{ addAccount, removeAccount },
  ...{ addKey, revokeKey, rotateKey, recordUses },
  ...{ signUp, setPassword, addLink },
  ...{ addSession, touchSession, endSession, endSessions },
  addMessage: messages.addMessage,
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
