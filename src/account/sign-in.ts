/** The account pages to sign in and to sign out. */
import { Type } from '@sinclair/typebox';
import type { FastifyRequest } from 'fastify';
import { ApiError } from '../core/errors.ts';
import type { People, Person } from '../core/people.ts';
import type { App } from '../http/operation.ts';
import {
  type Fault,
  FormError,
  formReader,
  formRoute,
  Name,
  noticeOf,
  Password,
  type Show,
  typedName,
} from './forms.ts';
import type { AccountScope } from './scope.ts';

const notices = {
  ended: 'Your session has ended. Sign in again.',
  deleted: 'Your account and its keys are deleted.',
  'signed-out': 'You are signed out.',
};

/** At the password, which is more often wrong than the name. */
const wrong = { field: 'password', text: 'The name or the password is wrong.' };

/** GET and POST at `url`. */
export function signIn(app: App, url: string, scope: AccountScope): void {
  const { exchanges, pages, sessions, record } = scope;
  const read = formReader(Type.Object({ name: Name, password: Password }));

  const show: Show = (request, reply, refusal) => {
    if (request.session && refusal === undefined) return pages.redirect(reply, '');
    const notice = noticeOf(request, notices);
    const data = { title: 'Sign in', name: typedName(request), signUp: scope.signUp, notice, refusal };
    return pages.show(request, reply, 'sign-in', data);
  };

  formRoute(app, url, {
    exchanges,
    show,
    async post(request, reply) {
      const { name, password } = read(request);
      const person = await checkPassword(scope, request, name, password, wrong);
      await sessions.begin(request, reply, person);
      record('signed_in', request, { account: person.account.id });
      return pages.redirect(reply, '');
    },
  });
}

/** Rejects with FormError `forbidden` and `fault` if the password is wrong, after the same time if the account does not exist. */
export async function checkPassword(
  { attempts, people, record }: AccountScope,
  request: FastifyRequest,
  name: string,
  password: string,
  fault: Fault,
): Promise<Person> {
  let person: Awaited<ReturnType<People['findPerson']>>;
  // For the trail, after too many attempts: the store is then not asked for the account.
  const own = request.session?.account.name === name ? request.session : undefined;
  try {
    const right = await attempts.signIn(request, name, async (hasher) => {
      person = await people.findPerson(name);
      return hasher.verify(password, person?.passwordHash);
    });
    if (right) return person as Person;
    throw new FormError([fault], 'forbidden');
  } catch (error) {
    if (error instanceof ApiError && error.code !== 'service_unavailable')
      record('sign_in_refused', request, { account: (person ?? own)?.account.id });
    throw error;
  }
}

/** POST at `url`. */
export function signOut(app: App, url: string, { exchanges, pages, sessions }: AccountScope): void {
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
