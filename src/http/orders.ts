/** GET /store/orders: named by the interface, described by nothing, and so neither invented nor forgotten. */
import { Failure } from '../errors.ts';
import type { App } from './app-type.ts';
import { refuseOtherMethods } from './methods.ts';

export function orderRoutes(app: App): void {
  app.get(
    '/store/orders',
    {
      config: {
        operation: {
          operationId: 'listOrders',
          tags: ['Store'],
          summary: 'List orders (not available)',
          description: 'Named, but not described: always 501.',
          errors: ['not_implemented'],
          hideTryItPanel: true,
        },
      },
      onRequest: (_request, _reply, done) => done(new Failure('not_implemented')),
    },
    () => undefined,
  );
  refuseOtherMethods(app, '/store/orders', ['GET', 'HEAD']);
}
