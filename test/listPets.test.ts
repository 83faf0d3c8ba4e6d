import { describe, expect, test } from 'vitest';
import { startApp } from './support/app.ts';

describe('GET /v1/pets', () => {
  test('200: a bare array, empty at first', async () => {
    const { call } = await startApp();
    const answer = await call('GET', '/v1/pets');
    expect(answer).toMatchObject({ status: 200, json: [] });
    expect(answer.headers).toMatchObject({
      'content-type': 'application/json',
      'cache-control': 'private, no-cache',
      vary: 'Authorization',
      link: '</v1/pets?limit=20>; rel="first"',
    });
  });
});
