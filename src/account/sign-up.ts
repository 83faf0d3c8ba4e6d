/** The account pages for those without a password: create an account, use an invitation, or use a link to reset the password. */
import { hash as hashOf } from 'node:crypto';
import { Type } from '@sinclair/typebox';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Account } from '../core/accounts.ts';
import { ApiError } from '../core/errors.ts';
import { dayMs } from '../core/limits.ts';
import { hashToken, type Person } from '../core/people.ts';
import type { SignUp } from '../http/decorations.ts';
import type { App } from '../http/operation.ts';
import { tooMany, tooManyAccounts } from './attempts.ts';
import { FormError, formReader, Name, Password } from './forms.ts';
import type { AccountScope } from './scope.ts';

const closed: Partial<Record<SignUp, string>> = {
  invitation: 'Sign-up is by invitation: ask the operator of this service for a link.',
  off: 'New accounts cannot be created here.',
};

const linkUsed = new ApiError(
  'route_not_found',
  'This link is not valid: it was used, or it has expired. Ask the operator of this service for a new one.',
);
const nameTaken = new FormError([{ field: 'name', text: 'This name is taken: choose another.' }]);

const readNewPerson = formReader(Type.Object({ name: Name, password: Password }), { newPassword: true });
const readPassword = formReader(Type.Object({ name: Type.Optional(Name), password: Password }), { newPassword: true });

/** Adds `/account/sign-up`, and `/account/links/:token` of `animal-store account invite` and `account reset`. */
export function signUp(app: App, scope: AccountScope): void {
  const { attempts, pages, people, record, sessions } = scope;
  const reason = closed[scope.signUp];

  async function enter(request: FastifyRequest, reply: FastifyReply, person: Person) {
    await sessions.begin(request, reply, person);
    return pages.redirect(reply, '?done=signed-in');
  }

  /** Creates the account that the form describes, and uses up the invitation `link`. Rejects with FormError if the name is taken. */
  function createAccount(request: FastifyRequest, link?: Buffer): Promise<Person> {
    const { name, password } = readNewPerson(request);
    const network = link ? undefined : hashOf('sha256', request.client.network, 'buffer');
    return attempts.signUp(
      request,
      async ({ hash }) => {
        // A hash costs a hundred times as much.
        if (await people.findPerson(name)) throw nameTaken;
        const passwordHash = await hash(password);
        const account = await people.signUp(name, passwordHash, link, network);
        if (account === 'link_used') throw linkUsed;
        if (account === 'name_taken') throw nameTaken;
        // At most as long as that.
        if (account === 'too_many') throw tooMany(tooManyAccounts, dayMs);
        record('account_created', request, account.id);
        return { account, passwordHash };
      },
      link,
    );
  }

  async function choosePassword(request: FastifyRequest, account: Account, link: Buffer): Promise<Person> {
    const { password } = readPassword(request, account.name);
    const passwordHash = await attempts.signUp(request, ({ hash }) => hash(password), link);
    if (!(await people.setPassword(account.id, passwordHash, { link }))) throw linkUsed;
    record('password_changed', request, account.id);
    return { account, passwordHash };
  }

  async function findLink({ params }: FastifyRequest) {
    const hash = hashToken((params as { token: string }).token);
    const link = hash && (await people.findLink(hash));
    if (!link) throw linkUsed;
    if (link.purpose === 'invitation' && scope.signUp === 'off') throw new ApiError('forbidden', closed.off);
    return { hash, link };
  }

  pages.route(
    app,
    '/sign-up',
    (request, reply, error) =>
      request.session && !error
        ? pages.redirect(reply, '')
        : pages.show(request, reply, 'sign-up', { closed: reason, error }),
    {
      async '/sign-up'(request, reply) {
        if (reason) throw new ApiError('forbidden', reason);
        return enter(request, reply, await createAccount(request));
      },
    },
  );

  const url = '/links/:token';
  pages.route(
    app,
    url,
    async (request, reply, error) => {
      const { link } = await findLink(request);
      return pages.show(request, reply, 'link', { link, error });
    },
    {
      // Only the form uses the link up.
      async [url](request, reply) {
        const { hash, link } = await findLink(request);
        const { account } = link;
        const person = account ? choosePassword(request, account, hash) : createAccount(request, hash);
        return enter(request, reply, await person);
      },
    },
  );
}
