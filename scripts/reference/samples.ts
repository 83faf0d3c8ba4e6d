/** Writes requests as commands and programs that run as they are, once the key is filled in. */

export interface Request {
  method: string;
  url: string;
  /** JSON on one line. */
  body: string | undefined;
}

export interface Sample {
  language: string;
  code: string;
}

const shellQuote = (text: string) => `'${text.replaceAll("'", `'\\''`)}'`;
const quote = (text: string) => `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`;

const curl = ({ method, url, body }: Request) =>
  [
    "curl -H 'Authorization: Bearer <API_KEY>'",
    ...(body === undefined ? [] : ["-H 'Content-Type: application/json'", `-d ${shellQuote(body)}`]),
    ...(method === (body === undefined ? 'GET' : 'POST') ? [url] : [`-X ${method} ${url}`]),
  ].join(body === undefined ? ' ' : ' \\\n  ');

const javascript = ({ method, url, body }: Request) =>
  [
    `const response = await fetch('${url}', {`,
    `  method: '${method}',`,
    '  headers: {',
    "    Authorization: 'Bearer <API_KEY>',",
    ...(body === undefined ? [] : ["    'Content-Type': 'application/json',"]),
    '  },',
    ...(body === undefined ? [] : [`  body: ${quote(body)},`]),
    '});',
    'console.log(response.status, await response.text());',
  ].join('\n');

const python = ({ method, url, body }: Request) =>
  [
    'from urllib.request import Request, urlopen',
    '',
    'request = Request(',
    `    '${url}',`,
    `    method='${method}',`,
    '    headers={',
    "        'Authorization': 'Bearer <API_KEY>',",
    ...(body === undefined ? [] : ["        'Content-Type': 'application/json',"]),
    '    },',
    ...(body === undefined ? [] : [`    data=${quote(body)}.encode(),`]),
    ')',
    'with urlopen(request) as response:',
    '    print(response.status, response.read().decode())',
  ].join('\n');

export const samplesOf = (request: Request): Sample[] => [
  { language: 'curl', code: curl(request) },
  { language: 'JavaScript', code: javascript(request) },
  { language: 'Python', code: python(request) },
];
