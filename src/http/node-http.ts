/** Values of Node's HTTP module. An `import` would read all its exports, and that of WebSocket loads undici: 45 ms and 15 MB. */
import { createRequire } from 'node:module';

const http: typeof import('node:http') = createRequire(import.meta.url)('node:http');
export const { createServer, get, METHODS, STATUS_CODES, validateHeaderValue } = http;
