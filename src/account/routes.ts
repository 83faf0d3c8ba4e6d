/** The account pages: people create an account there, sign in, and make API keys. */
import { addRoutes, refuseEmptyParameter } from '../http/methods.ts';
import type { App } from '../http/operation.ts';
import { keys } from './keys.ts';
import { type AccountOptions, createAccountScope, noPage, requireSession } from './scope.ts';
import { settings } from './settings.ts';
import { signIn } from './sign-in.ts';
import { signUp } from './sign-up.ts';

export const account = (app: App, options: AccountOptions): Promise<void> =>
  addRoutes(app, async () => {
    const scope = await createAccountScope(app, options);
    signUp(app, scope);
    signIn(app, scope);
    for (const url of ['/links/', '/keys/']) refuseEmptyParameter(app, url, noPage);
    await app.register(async (own: App) => {
      requireSession(own, scope);
      keys(own, scope);
      settings(own, scope);
    });
  });
