/**
 * Node's HTTP module. An import of it would read everything that it exports, and so load what nobody uses here, such as WebSocket: 15 MiB, and 30 ms
 * of the start. With require(), that stays unloaded.
 */
import { createRequire } from 'node:module';

const http: typeof import('node:http') = createRequire(import.meta.url)('node:http');

export const { createServer, get, METHODS, STATUS_CODES, validateHeaderName, validateHeaderValue } = http;
