/** GET /store/orders: a placeholder, because the interface names this operation but does not describe it. */
import { ApiError } from '../core/errors.ts';
import type { App } from '../http/operation.ts';

/** The route for orders. It needs an API key. */
export async function orders(app: App): Promise<void> {
  app.get(
    '/store/orders',
    {
      config: {
        operation: {
          operationId: 'listOrders',
          tags: ['Store'],
          summary: 'List orders (not available)',
          description: 'A placeholder; always returns 501. No scope is needed.',
          errors: ['not_implemented'],
          hideTryItPanel: true,
        },
      },
    },
    async () => {
      throw new ApiError('not_implemented');
    },
  );
}
