/** The account pages for those without a password: create an account, use an invitation, or use a link to reset the password. */
import { hash as hashOf } from 'node:crypto';
import { Type } from '@sinclair/typebox';
import type { FastifyRequest } from 'fastify';
import type { Account } from '../core/accounts.ts';
import { ApiError } from '../core/errors.ts';
import { hashToken, type OneTimeLink, type Person } from '../core/people.ts';
import { networkOf } from '../http/addresses.ts';
import type { App } from '../http/operation.ts';
import {
  checkNewPassword,
  FormError,
  formReader,
  formRoute,
  Name,
  Password,
  readNewPerson,
  type Show,
  typedName,
} from './forms.ts';
import type { Hasher } from './passwords.ts';
import type { AccountScope, SignUp } from './scope.ts';

const closed: Partial<Record<SignUp, string>> = {
  invitation: 'Sign-up is by invitation: ask the operator of this service for a link.',
  off: 'New accounts cannot be created here.',
};

/** GET and POST at `url`. */
export function signUp(app: App, url: string, scope: AccountScope): void {
  const { attempts, exchanges, pages, sessions } = scope;
  const reason = closed[scope.signUp];

  const show: Show = (request, reply, refusal) => {
    if (request.session && refusal === undefined) return pages.redirect(reply, '');
    const data = { title: 'Create an account', name: typedName(request), closed: reason, refusal };
    return pages.show(request, reply, 'sign-up', data);
  };

  formRoute(app, url, {
    exchanges,
    show,
    async post(request, reply) {
      if (reason) throw new ApiError('forbidden', reason);
      const { name, password } = readNewPerson(request);
      const network = hashOf('sha256', networkOf(request.exchange.address), 'buffer');
      const create = (hasher: Hasher) => createAccount(scope, hasher, request, { name, password, network });
      await sessions.begin(request, reply, await attempts.signUp(request, create));
      return pages.redirect(reply, '');
    },
  });
}

interface NewPerson {
  name: string;
  password: string;
  /** The invitation to use up. */
  link?: Buffer;
  /** SHA-256 of the network of a person without an invitation. */
  network?: Buffer;
}

/** Rejects with FormError if the name is taken. */
async function createAccount(
  { people, record }: AccountScope,
  hasher: Hasher,
  request: FastifyRequest,
  { name, password, link, network }: NewPerson,
): Promise<Person> {
  const nameTaken = new FormError([{ field: 'name', text: 'This name is taken: choose another.' }]);
  // A hash costs a hundred times as much.
  if (await people.findPerson(name)) throw nameTaken;
  const passwordHash = await hasher.hash(password);
  const account = await people.signUp(name, passwordHash, link, network);
  if (account === 'link_used') throw linkUsed;
  if (account === 'name_taken') throw nameTaken;
  record('account_created', request, { account: account.id });
  return { account, passwordHash };
}

const linkUsed = new ApiError(
  'route_not_found',
  'This link is not valid: it was used, or it has expired. Ask the operator of this service for a new one.',
);

/** GET and POST at `url`, whose parameter `token` is from `animal-store account invite` or `account reset`. Only POST uses the link up. */
export function oneTimeLink(app: App, url: string, scope: AccountScope): void {
  const { exchanges, pages, sessions } = scope;

  const show: Show = async (request, reply, refusal) => {
    const { link } = await findLink(scope, request);
    const title = link.account ? 'Choose a password' : 'Create an account';
    return pages.show(request, reply, 'link', { title, link, name: typedName(request), refusal });
  };

  formRoute(app, url, {
    exchanges,
    show,
    async post(request, reply) {
      const { hash, link } = await findLink(scope, request);
      const person = link.account
        ? await choosePassword(scope, request, link.account, hash)
        : await createInvited(scope, request, hash);
      await sessions.begin(request, reply, person);
      return pages.redirect(reply, '');
    },
  });
}

async function findLink(
  { people, signUp }: AccountScope,
  { params }: FastifyRequest,
): Promise<{ hash: Buffer; link: OneTimeLink }> {
  const hash = hashToken((params as { token: string }).token);
  const link = hash && (await people.findLink(hash));
  if (!link) throw linkUsed;
  if (link.purpose === 'invitation' && signUp === 'off') throw new ApiError('forbidden', closed.off);
  return { hash, link };
}

const readPassword = formReader(Type.Object({ name: Type.Optional(Name), password: Password }));

async function choosePassword(
  { attempts, people, record }: AccountScope,
  request: FastifyRequest,
  account: Account,
  link: Buffer,
): Promise<Person> {
  const { password } = readPassword(request);
  checkNewPassword(password, account.name);
  const passwordHash = await attempts.signUp(request, (hasher) => hasher.hash(password), link);
  if (!(await people.setPassword(account.id, passwordHash, { link }))) throw linkUsed;
  record('password_changed', request, { account: account.id });
  return { account, passwordHash };
}

async function createInvited(scope: AccountScope, request: FastifyRequest, link: Buffer): Promise<Person> {
  const { name, password } = readNewPerson(request);
  const create = (hasher: Hasher) => createAccount(scope, hasher, request, { name, password, link });
  return scope.attempts.signUp(request, create, link);
}
