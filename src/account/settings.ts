/** The account page of settings: change the password, sign out everywhere, delete the account. */
import { Type } from '@sinclair/typebox';
import { RefusedError } from '../core/accounts.ts';
import type { App } from '../http/operation.ts';
import { formReader, Name, Password } from './forms.ts';
import type { Act } from './pages.ts';
import type { AccountScope } from './scope.ts';
import { refuseOther, sessionOf } from './session.ts';
import { checkPassword } from './sign-in.ts';

/** Adds `/account/settings` with its forms. They need a session. */
export function settings(app: App, scope: AccountScope): void {
  const { pages } = scope;
  pages.route(
    app,
    '/settings',
    (request, reply, error) => {
      const deletes = request.routeOptions.url === '/account/delete';
      // The page has two fields for the current password.
      return pages.show(request, reply, 'settings', { error, deletes, idOf: (field) => (deletes ? 'confirm' : field) });
    },
    {
      '/password': changePassword(scope),
      '/sign-out-everywhere': signOutEverywhere(scope),
      '/delete': deleteAccount(scope),
    },
  );
}

const wrong = { field: 'current', text: 'The current password is wrong.' };

function changePassword(scope: AccountScope): Act {
  const { pages, passwords, people, record, sessions } = scope;
  const form = Type.Object({ name: Type.Optional(Name), current: Password, password: Password });
  const read = formReader(form, { newPassword: true });
  return async (request, reply) => {
    const { account, hash: session } = sessionOf(request);
    const { name, current, password } = read(request, account.name);
    refuseOther(name, account);
    const person = await checkPassword(scope, request, account.name, current, wrong);
    const passwordHash = await passwords.inTurn(request.client.network, (hasher) => hasher.hash(password));
    // Whoever changed the password or the account meanwhile has ended its sessions, too.
    if (!(await people.setPassword(account.id, passwordHash, { session, previous: person.passwordHash })))
      throw new RefusedError('session_ended');
    record('password_changed', request, account.id);
    await sessions.begin(request, reply, { account, passwordHash });
    return pages.redirect(reply, '/settings?done=password');
  };
}

function signOutEverywhere({ pages, people, sessions }: AccountScope): Act {
  return async (request, reply) => {
    if (!(await people.endSessions(sessionOf(request).hash))) throw new RefusedError('session_ended');
    await sessions.end(request, reply);
    return pages.redirect(reply, '/sign-in?done=signed-out');
  };
}

function deleteAccount(scope: AccountScope): Act {
  const { accounts, pages, record, sessions } = scope;
  const read = formReader(Type.Object({ name: Type.Optional(Name), current: Password }));
  return async (request, reply) => {
    const { account: own, hash: session } = sessionOf(request);
    const { name, current } = read(request);
    refuseOther(name, own);
    const { account, passwordHash } = await checkPassword(scope, request, own.name, current, wrong);
    if (!(await accounts.removeAccount({ session }, passwordHash))) throw new RefusedError('session_ended');
    record('account_removed', request, account.id);
    await sessions.end(request, reply);
    return pages.redirect(reply, '/sign-in?done=deleted');
  };
}
