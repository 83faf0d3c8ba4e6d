/** The account pages for those without a password: create an account, use an invitation, or use a link to reset the password. */
import { hash as hashOf } from 'node:crypto';
import { Type } from '@sinclair/typebox';
import type { FastifyRequest } from 'fastify';
import type { Account } from '../core/accounts.ts';
import { ApiError } from '../core/errors.ts';
import { hashToken } from '../core/people.ts';
import type { SignUp } from '../http/decorations.ts';
import type { App } from '../http/operation.ts';
import { FormError, formReader, Name, Password } from './forms.ts';
import type { AccountScope } from './scope.ts';

const closed: Partial<Record<SignUp, string>> = {
  invitation: 'Sign-up is by invitation: ask the operator of this service for a link.',
  off: 'New accounts cannot be created here.',
};

/** Adds `/account/sign-up`. */
export function signUp(app: App, scope: AccountScope): void {
  const { pages, sessions } = scope;
  const reason = closed[scope.signUp];

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
        await sessions.begin(request, reply, await createAccount(scope, request));
        return pages.redirect(reply, '?done=signed-in');
      },
    },
  );
}

const readNewPerson = formReader(Type.Object({ name: Name, password: Password }), { newPassword: true });

/** Creates the account that the form describes, and uses up the invitation `link`. Rejects with FormError if the name is taken. */
function createAccount({ attempts, people, record }: AccountScope, request: FastifyRequest, link?: Buffer) {
  const { name, password } = readNewPerson(request);
  const nameTaken = new FormError([{ field: 'name', text: 'This name is taken: choose another.' }]);
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
      record('account_created', request, account.id);
      return { account, passwordHash };
    },
    link,
  );
}

const linkUsed = new ApiError(
  'route_not_found',
  'This link is not valid: it was used, or it has expired. Ask the operator of this service for a new one.',
);

/** Adds `/account/links/:token`, of `animal-store account invite` or `account reset`. Only its form uses the link up. */
export function oneTimeLink(app: App, scope: AccountScope): void {
  const { pages, sessions } = scope;
  const url = '/links/:token';

  pages.route(
    app,
    url,
    async (request, reply, error) => {
      const { link } = await findLink(scope, request);
      return pages.show(request, reply, 'link', { link, error });
    },
    {
      async [url](request, reply) {
        const { hash, link } = await findLink(scope, request);
        const person = link.account
          ? await choosePassword(scope, request, link.account, hash)
          : await createAccount(scope, request, hash);
        await sessions.begin(request, reply, person);
        return pages.redirect(reply, '?done=signed-in');
      },
    },
  );
}

async function findLink({ people, signUp }: AccountScope, { params }: FastifyRequest) {
  const hash = hashToken((params as { token: string }).token);
  const link = hash && (await people.findLink(hash));
  if (!link) throw linkUsed;
  if (link.purpose === 'invitation' && signUp === 'off') throw new ApiError('forbidden', closed.off);
  return { hash, link };
}

const readPassword = formReader(Type.Object({ name: Type.Optional(Name), password: Password }), { newPassword: true });

async function choosePassword(
  { attempts, people, record }: AccountScope,
  request: FastifyRequest,
  account: Account,
  link: Buffer,
) {
  const { password } = readPassword(request, account.name);
  const passwordHash = await attempts.signUp(request, (hasher) => hasher.hash(password), link);
  if (!(await people.setPassword(account.id, passwordHash, { link }))) throw linkUsed;
  record('password_changed', request, account.id);
  return { account, passwordHash };
}
