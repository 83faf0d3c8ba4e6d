/** The account page of settings: change the password, sign out everywhere, delete the account. */
import { Type } from '@sinclair/typebox';
import { RefusedError } from '../core/accounts.ts';
import type { App } from '../http/operation.ts';
import { formReader, Name, Password } from './forms.ts';
import type { AccountScope } from './scope.ts';
import { refuseOther, sessionOf } from './session.ts';
import { checkPassword } from './sign-in.ts';

const fields = { name: Type.Optional(Name), current: Password };
const readDeletion = formReader(Type.Object(fields));
const readPasswords = formReader(Type.Object({ ...fields, password: Password }), { newPassword: true });

const wrong = { field: 'current', text: 'The current password is wrong.' };
const notDeleted = { ...wrong, text: 'The account is not deleted: the current password is wrong.' };

/** Adds `/account/settings` with its forms. They need a session. */
export function settings(app: App, scope: AccountScope): void {
  const { accounts, pages, passwords, people, record, sessions } = scope;

  pages.route(
    app,
    '/settings',
    (request, reply, error) => {
      const deletes = request.routeOptions.url === '/account/delete';
      // The page has two fields for the current password. What is wrong with a deletion stands at its form.
      return pages.show(request, reply, 'settings', { error, deletes, idOf: (field) => (deletes ? 'confirm' : field) });
    },
    {
      async '/password'(request, reply) {
        const { account, hash: session } = sessionOf(request);
        const { name, current, password } = readPasswords(request, account.name);
        refuseOther(name, account);
        const { passwordHash: previous } = await checkPassword(scope, request, account.name, current, wrong);
        const passwordHash = await passwords.inTurn(
          request.client.network,
          ({ hash }) => hash(password),
          request.raw.socket,
        );
        // Whoever changed the password or the account meanwhile has ended its sessions, too.
        if (!(await people.setPassword(account.id, passwordHash, { session, previous })))
          throw new RefusedError('session_ended');
        record('password_changed', request, account.id);
        await sessions.begin(request, reply, { account, passwordHash });
        return pages.redirect(reply, '/settings?done=password');
      },

      async '/sign-out-everywhere'(request, reply) {
        if (!(await people.endSessions(sessionOf(request).hash))) throw new RefusedError('session_ended');
        await sessions.end(request, reply);
        return pages.redirect(reply, '/sign-in?done=signed-out');
      },

      async '/delete'(request, reply) {
        const { account, hash: session } = sessionOf(request);
        const { name, current } = readDeletion(request);
        refuseOther(name, account);
        const { passwordHash } = await checkPassword(scope, request, account.name, current, notDeleted);
        if (!(await accounts.removeAccount({ session }, passwordHash))) throw new RefusedError('session_ended');
        record('account_removed', request, account.id);
        await sessions.end(request, reply);
        return pages.redirect(reply, '/sign-in?done=deleted');
      },
    },
  );
}
