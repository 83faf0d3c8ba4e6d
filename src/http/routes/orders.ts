/** GET /store/orders: a placeholder, because the interface names this operation but does not describe it. */
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
          description: 'A placeholder; always returns 501.',
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
