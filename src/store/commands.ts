/** The table of commands: every change except those of animals, written once for both engines. Their inputs and outcomes are JSON. */
import * as accounts from './commands/accounts.ts';
import * as attempts from './commands/attempts.ts';
import * as messages from './commands/messages.ts';
import * as people from './commands/people.ts';
import * as sessions from './commands/sessions.ts';
import * as trail from './commands/trail.ts';
import type { Steps } from './steps.ts';

const { addAccount, removeAccount, sweepKeys, addKey, revokeKey, rotateKey, recordUses } = accounts;
const { countAttempt, forgetAttempts } = attempts;
const { signUp, setPassword, addLink } = people;
const { addSession, touchSession, endSession, endSessions } = sessions;

export const commands = {
  ...{ addAccount, removeAccount, sweepKeys, addKey, revokeKey, rotateKey, recordUses },
  ...{ countAttempt, forgetAttempts },
  ...{ signUp, setPassword, addLink },
  ...{ addSession, touchSession, endSession, endSessions },
  addMessage: messages.addMessage,
  ...{ addEvent: trail.addEvent, takeEvents: trail.takeEvents },
};

export type CommandName = keyof typeof commands;
export type Input<Name extends CommandName> = Parameters<(typeof commands)[Name]>[0];
export type Outcome<Name extends CommandName> =
  ReturnType<(typeof commands)[Name]> extends Steps<infer Result> ? Result : never;

/**
 * Commands that count rows which simultaneous ones add, without a lock that both take. PostgreSQL runs them as SERIALIZABLE, and again if they
 * conflict. It runs all others as READ COMMITTED: they lock the row of the account that they change first.
 */
export const serializable: ReadonlySet<CommandName> = new Set(['countAttempt']);

/** The statements of a command. */
export function stepsOf<Name extends CommandName>(name: Name, input: Input<Name>): Steps<Outcome<Name>> {
  return (commands[name] as (input: Input<Name>) => Steps<Outcome<Name>>)(input);
}
