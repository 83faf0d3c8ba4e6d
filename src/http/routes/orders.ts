/** GET /store/orders: named by the interface, described by nothing, and so neither invented nor forgotten. */
import { ApiError } from '../../errors.ts';
import { refuseOtherMethods } from '../methods.ts';
import type { App } from '../operation.ts';

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
      throw new ApiError('not_implemented');
    },
  );
  refuseOtherMethods(app, '/store/orders', ['GET', 'HEAD']);
}
