/** Tests sendHead. What a client receives is in headers.test.ts. */
import { IncomingMessage, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import { expect, onTestFinished, test, vi } from 'vitest';
import { sendHead } from '../../../src/http/head.ts';

test('the date changes with the second, and a Node without the field that is set writes the head itself', () => {
  vi.useFakeTimers({ toFake: ['Date'] });
  onTestFinished(() => void vi.useRealTimers());
  const newResponse = () =>
    Object.assign(new ServerResponse(new IncomingMessage(new Socket())), { shouldKeepAlive: true });
  for (const now of [1000, 1999, 2000, 1_795_132_799_999, 1_795_132_800_000, 5000]) {
    vi.setSystemTime(now);
    const response = newResponse();
    sendHead(response, 200, '');
    expect(Reflect.get(response, '_header')).toContain(`\r\nDate: ${new Date(now).toUTCString()}\r\n`);
  }
  const response = newResponse();
  Reflect.deleteProperty(response, '_header');
  const writeHead = vi.spyOn(response, 'writeHead').mockReturnThis();
  sendHead(response, 200, 'a: b\r\n');
  expect(writeHead).toHaveBeenCalledWith(200, ['a', 'b']);
});
