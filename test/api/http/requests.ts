/** Requests as text, in which KEY stands for the API key of the test. */
export const host = 'Host: animals.example\r\n';
export const key = 'Authorization: Bearer KEY\r\n';
export const open = host + key;
export const json = 'Content-Type: application/json\r\n';
export const pet = '{"name":"Biscuit","categoryId":7}';

/** The headers of a request, and the empty line behind them. */
export const ask = (line: string, headers = open, version = '1.1') => `${line} HTTP/${version}\r\n${headers}\r\n`;
export const get = (target: string, headers?: string) => ask(`GET ${target}`, headers);
export const lengthOf = (body: string) => `Content-Length: ${Buffer.byteLength(body, 'latin1')}\r\n`;
export const post = (body = pet, more = '') => ask('POST /v1/pets', open + json + more + lengthOf(body)) + body;
