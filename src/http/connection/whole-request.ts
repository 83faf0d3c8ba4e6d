/** Recognizes bytes that are exactly one request of the usual form, without a general parser: whatever is unusual is left to Node. */

export interface WholeRequest {
  method: string;
  url: string;
  /** The number of header fields. */
  fields: number;
  authorization: string | undefined;
  origin: string | undefined;
  traceparent: string | undefined;
}

/** A longer request is left to Node. */
const maxBytes = 4096;

const requestLine = /^(GET|POST) ([\x21-\x7e]+) HTTP\/1\.1$/;
const fieldLine = /^([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\0\r\n]*)$/;

/** Fields that change where a request ends, or what follows it. */
const leftToNode = new Set(['transfer-encoding', 'expect', 'upgrade', 'trailer', 'te']);

/** The only request in `bytes`, which must have all of its body; undefined if it is not in the usual form. */
export function readWhole(bytes: Buffer): WholeRequest | undefined {
  if (bytes.length > maxBytes) return undefined;
  const text = bytes.toString('latin1');
  const end = text.indexOf('\r\n\r\n');
  if (end === -1) return undefined;
  const [first = '', ...lines] = text.slice(0, end).split('\r\n');
  const [, method, url] = requestLine.exec(first) ?? [];
  if (method === undefined || url === undefined) return undefined;
  const fields = lines.length;
  const found: WholeRequest = {
    method,
    url,
    fields,
    authorization: undefined,
    origin: undefined,
    traceparent: undefined,
  };
  let length: string | undefined;
  for (const line of lines) {
    const [, name = '', value = ''] = fieldLine.exec(line) ?? [];
    const field = name.toLowerCase();
    if (field === '' || leftToNode.has(field)) return undefined;
    if (field === 'connection' && value !== 'keep-alive') return undefined;
    if (field === 'content-length') {
      if (length !== undefined || !/^\d{1,4}$/.test(value)) return undefined;
      length = value;
    } else if (field === 'authorization' || field === 'origin' || field === 'traceparent') {
      if (found[field] !== undefined) return undefined;
      found[field] = value;
    }
  }
  return bytes.length === end + 4 + Number(length ?? 0) ? found : undefined;
}
