/** The account pages to sign in and to sign out. */
import { Type } from '@sinclair/typebox';
import type { FastifyRequest } from 'fastify';
import { ApiError } from '../core/errors.ts';
import type { People, Person } from '../core/people.ts';
import type { App } from '../http/operation.ts';
import { type Fault, FormError, formReader, Name, Password } from './forms.ts';
import { ownPage } from './pages.ts';
import type { AccountScope } from './scope.ts';

/** Of no field: either may be wrong. */
const wrong = { text: 'The name or the password is wrong.' };

/** Adds `/account/sign-in` and `/account/sign-out`. */
export function signIn(app: App, scope: AccountScope): void {
  const { pages, sessions, record, signUp } = scope;
  const read = formReader(Type.Object({ name: Name, password: Password }));
  const pageAfter = ({ query }: FastifyRequest) => ownPage((query as { to?: unknown }).to);

  pages.route(
    app,
    '/sign-in',
    (request, reply, error) => {
      const to = pageAfter(request);
      if (request.session && !error) return pages.redirect(reply, to);
      return pages.show(request, reply, 'sign-in', { signUp, error, to });
    },
    {
      async '/sign-in'(request, reply) {
        const { name, password } = read(request);
        const person = await checkPassword(scope, request, name, password, wrong);
        await sessions.begin(request, reply, person);
        record('signed_in', request, person.account.id);
        return pages.redirect(reply, `${pageAfter(request)}?done=signed-in`);
      },
    },
  );

  pages.route(app, '/sign-out', (_request, reply) => pages.redirect(reply, ''), {
    async '/sign-out'(request, reply) {
      await sessions.end(request, reply);
      return pages.redirect(reply, '/sign-in?done=signed-out');
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
    const isRight = await attempts.signIn(request, name, own !== undefined, async ({ verify }) => {
      person = await people.findPerson(name);
      return verify(password, person?.passwordHash);
    });
    if (isRight) return person as Person;
    throw new FormError([fault], 'forbidden');
  } catch (error) {
    if (error instanceof ApiError && error.code !== 'service_unavailable')
      record('sign_in_refused', request, (person ?? own)?.account.id);
    throw error;
  }
}
