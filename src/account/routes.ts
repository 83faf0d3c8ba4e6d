/** The account pages: create an account, sign in and out, use a one-time link, change the password, delete the account. */
import { hash } from 'node:crypto';
import { Type } from '@sinclair/typebox';
import type { FastifyRequest } from 'fastify';
import { type Account, type Accounts, isName, SessionEndedError } from '../core/accounts.ts';
import { ApiError } from '../core/errors.ts';
import { hashToken, type OneTimeLink, type People, type Person } from '../core/people.ts';
import { kind } from '../core/schema.ts';
import { networkOf } from '../http/addresses.ts';
import type { Exchanges } from '../http/exchange.ts';
import type { App } from '../http/operation.ts';
import type { Attempts } from './attempts.ts';
import { formReader, formRoute, pageRoute, type Show, typedName } from './forms.ts';
import type { Pages } from './pages.ts';
import { type Hasher, type Passwords, passwordFault } from './passwords.ts';
import type { OwnSession, Sessions } from './session.ts';
import type { RecordEvent } from './trail.ts';

/** Who can create an account: anyone, people with an invitation, or nobody. */
export type SignUp = 'open' | 'invitation' | 'off';

export interface AccountOptions {
  accounts: Accounts;
  people: People;
  passwords: Passwords;
  attempts: Attempts;
  sessions: Sessions;
  pages: Pages;
  exchanges: Exchanges;
  record: RecordEvent;
  signUp: SignUp;
}

export const Name = kind<string>(
  'Name',
  (value) => typeof value === 'string' && isName(value),
  'have 1 to 100 printable characters',
  { type: 'string' },
);
/** Any text: passwordFault checks a new password, and all others are right or wrong. */
const Password = kind<string>('Password', (value) => typeof value === 'string', 'be given once', { type: 'string' });

/** Throws ApiError `invalid_body` if a new password is refused. */
function checkNewPassword(password: string, name: string): void {
  const fault = passwordFault(password, name);
  if (fault) throw new ApiError('invalid_body', `The password ${fault}.`);
}

/** A notice that the query names. No text of the query is shown. */
export function noticeOf({ query }: FastifyRequest, texts: Record<string, string>): string | undefined {
  const { done } = query as { done?: unknown };
  return typeof done === 'string' && Object.hasOwn(texts, done) ? texts[done] : undefined;
}

const closed = {
  invitation: 'Sign-up is by invitation: ask the operator of this service for a link.',
  off: 'New accounts cannot be created here.',
};

/** GET and POST at `url`. */
export function signUp(app: App, url: string, options: AccountOptions): void {
  const { exchanges, pages } = options;
  const read = formReader(Type.Object({ name: Name, password: Password }));
  const refusal = options.signUp === 'open' ? undefined : closed[options.signUp];

  const show: Show = (request, reply, error) => {
    if (request.session && error === undefined) return pages.redirect(reply, '');
    return pages.show(request, reply, 'sign-up', {
      title: 'Create an account',
      name: typedName(request),
      refusal,
      error,
    });
  };

  formRoute(app, url, {
    exchanges,
    show,
    async post(request, reply) {
      const { name, password } = read(request);
      if (refusal) throw new ApiError('forbidden', refusal);
      checkNewPassword(password, name);
      const person = await options.attempts.signUp(request, (hasher) =>
        createAccount(options, hasher, request, {
          name,
          password,
          network: hash('sha256', networkOf(request.exchange.address), 'buffer'),
        }),
      );
      await options.sessions.begin(request, reply, person);
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

/** Rejects with ApiError `invalid_body` if the name is taken. */
async function createAccount(
  { people, record }: AccountOptions,
  hasher: Hasher,
  request: FastifyRequest,
  { name, password, link, network }: NewPerson,
): Promise<Person> {
  const nameTaken = new ApiError('invalid_body', 'This name is taken: choose another.');
  // A hash costs a hundred times as much.
  if (await people.findPerson(name)) throw nameTaken;
  const passwordHash = await hasher.hash(password);
  const account = await people.signUp(name, passwordHash, link, network);
  if (account === 'link_used') throw linkUsed;
  if (account === 'name_taken') throw nameTaken;
  record('account_created', request, { account: account.id });
  return { account, passwordHash };
}

const signInNotices = {
  ended: 'Your session has ended. Sign in again.',
  deleted: 'Your account and its keys are deleted.',
  'signed-out': 'You are signed out.',
};

/** GET and POST at `url`. */
export function signIn(app: App, url: string, options: AccountOptions): void {
  const { exchanges, pages, sessions, record } = options;
  const read = formReader(Type.Object({ name: Name, password: Password }));

  const show: Show = (request, reply, error) => {
    if (request.session && error === undefined) return pages.redirect(reply, '');
    const notice = noticeOf(request, signInNotices);
    const data = { title: 'Sign in', name: typedName(request), signUp: options.signUp, notice, error };
    return pages.show(request, reply, 'sign-in', data);
  };

  formRoute(app, url, {
    exchanges,
    show,
    async post(request, reply) {
      const { name, password } = read(request);
      const person = await checkPassword(options, request, name, password, 'The name or the password is wrong.');
      await sessions.begin(request, reply, person);
      record('signed_in', request, { account: person.account.id });
      return pages.redirect(reply, '');
    },
  });
}

/** Rejects with ApiError `forbidden` and `sentence` if the password is wrong, after the same time if the account does not exist. */
async function checkPassword(
  { attempts, people, record }: AccountOptions,
  request: FastifyRequest,
  name: string,
  password: string,
  sentence: string,
): Promise<Person> {
  let person: Awaited<ReturnType<People['findPerson']>>;
  // After too many attempts the store is not asked for the account.
  const own = request.session?.account.name === name ? request.session : undefined;
  try {
    const right = await attempts.signIn(request, name, async (hasher) => {
      person = await people.findPerson(name);
      return hasher.verify(password, person?.passwordHash);
    });
    if (right) return person as Person;
    throw new ApiError('forbidden', sentence);
  } catch (error) {
    if (error instanceof ApiError && error.code !== 'service_unavailable')
      record('sign_in_refused', request, { account: (person ?? own)?.account.id });
    throw error;
  }
}

/** POST at `url`. */
export function signOut(app: App, url: string, { exchanges, pages, sessions }: AccountOptions): void {
  const leave: Show = (_request, reply) => pages.redirect(reply, '');
  formRoute(app, url, {
    exchanges,
    show: leave,
    async post(request, reply) {
      await sessions.end(request, reply);
      return pages.redirect(reply, '/sign-in?done=signed-out');
    },
  });
}

const settingsNotices = { password: 'Your password is changed, and all other sessions have ended.' };

/** GET at `/settings`, and POST for each of its forms. They need a session. */
export function settings(app: App, options: AccountOptions): void {
  const { accounts, exchanges, pages, people, passwords, sessions, record } = options;
  const readChange = formReader(Type.Object({ name: Type.Optional(Name), current: Password, password: Password }));
  const readDeletion = formReader(Type.Object({ name: Type.Optional(Name), current: Password }));
  const wrong = 'The current password is wrong.';

  const show: Show = (request, reply, error) =>
    pages.show(request, reply, 'settings', { title: 'Settings', notice: noticeOf(request, settingsNotices), error });
  const get: Show = (_request, reply) => pages.redirect(reply, '/settings');

  pageRoute(app, '/settings', { exchanges, show });

  formRoute(app, '/password', {
    exchanges,
    show,
    get,
    async post(request, reply) {
      const { account, hash: session } = request.session as OwnSession;
      const { current, password } = readChange(request);
      checkNewPassword(password, account.name);
      const person = await checkPassword(options, request, account.name, current, wrong);
      const passwordHash = await passwords.inTurn(networkOf(request.exchange.address), ({ hash }) => hash(password));
      // Whoever changed the password or the account meanwhile has ended its sessions, too.
      if (!(await people.setPassword(account.id, passwordHash, { session, previous: person.passwordHash })))
        throw new SessionEndedError();
      record('password_changed', request, { account: account.id });
      await sessions.begin(request, reply, { account, passwordHash });
      return pages.redirect(reply, '/settings?done=password');
    },
  });

  formRoute(app, '/sign-out-everywhere', {
    exchanges,
    show,
    get,
    async post(request, reply) {
      await people.endSessions((request.session as OwnSession).hash);
      await sessions.end(request, reply);
      return pages.redirect(reply, '/sign-in?done=signed-out');
    },
  });

  formRoute(app, '/delete', {
    exchanges,
    show,
    get,
    async post(request, reply) {
      const { hash: session, account: own } = request.session as OwnSession;
      const { current } = readDeletion(request);
      const { account, passwordHash } = await checkPassword(options, request, own.name, current, wrong);
      if (!(await accounts.removeAccount({ session }, passwordHash))) throw new SessionEndedError();
      record('account_removed', request, { account: account.id });
      await sessions.end(request, reply);
      return pages.redirect(reply, '/sign-in?done=deleted');
    },
  });
}

const linkUsed = new ApiError(
  'route_not_found',
  'This link is not valid: it was used, or it has expired. Ask the operator of this service for a new one.',
);

/** GET and POST at `url`, whose parameter `token` is from `animal-store account invite` or `account reset`. Only POST uses the link up. */
export function oneTimeLink(app: App, url: string, options: AccountOptions): void {
  const { attempts, exchanges, pages, people, sessions, record } = options;
  const readNew = formReader(Type.Object({ name: Name, password: Password }));
  const readPassword = formReader(Type.Object({ name: Type.Optional(Name), password: Password }));

  async function find({ params }: FastifyRequest): Promise<{ hash: Buffer; link: OneTimeLink }> {
    const hash = hashToken((params as { token: string }).token);
    const link = hash && (await people.findLink(hash));
    if (!link) throw linkUsed;
    if (link.purpose === 'invitation' && options.signUp === 'off') throw new ApiError('forbidden', closed.off);
    return { hash, link };
  }

  async function choosePassword(request: FastifyRequest, account: Account, hash: Buffer): Promise<Person> {
    const { password } = readPassword(request);
    checkNewPassword(password, account.name);
    const passwordHash = await attempts.signUp(request, (hasher) => hasher.hash(password), hash);
    if (!(await people.setPassword(account.id, passwordHash, { link: hash }))) throw linkUsed;
    record('password_changed', request, { account: account.id });
    return { account, passwordHash };
  }

  async function createInvited(request: FastifyRequest, hash: Buffer): Promise<Person> {
    const { name, password } = readNew(request);
    checkNewPassword(password, name);
    const create = (hasher: Hasher) => createAccount(options, hasher, request, { name, password, link: hash });
    return attempts.signUp(request, create, hash);
  }

  const show: Show = async (request, reply, error) => {
    const { link } = await find(request);
    const title = link.account ? 'Choose a password' : 'Create an account';
    return pages.show(request, reply, 'link', { title, link, name: typedName(request), error });
  };

  formRoute(app, url, {
    exchanges,
    show,
    async post(request, reply) {
      const { hash, link } = await find(request);
      const person = link.account
        ? await choosePassword(request, link.account, hash)
        : await createInvited(request, hash);
      await sessions.begin(request, reply, person);
      return pages.redirect(reply, '');
    },
  });
}
