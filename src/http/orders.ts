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
    },
    async () => {
      throw new Failure('not_implemented');
    },
  );
  refuseOtherMethods(app, '/store/orders', ['GET', 'HEAD']);
}
