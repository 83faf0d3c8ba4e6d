/** Writes requests as commands and programs that run as they are, once the key is filled in. The page's script puts the values of the panel in. */
import { quoteForProgram, quoteForShell } from '../../src/pages/quoting.js';
import { escapeHtml, type Grammar, highlight, type Mark } from './highlight.ts';
import type { Types } from './types.ts';

export interface Request {
  method: string;
  url: string;
  /** The parameters that are headers, with their values. A header without one is hidden. */
  headers: { name: string; value: string | undefined }[];
  /** JSON on one line. */
  body: string | undefined;
  /** Of the body of a success, if it has one. */
  types: Types | undefined;
}

export interface Sample {
  language: string;
  /** HTML. */
  code: string;
}

/** Text that the script replaces: `before` and a value, quoted. */
interface Slot {
  slot: string;
  before: string;
  value: string;
}

/** Parts that only a request with this header has. */
interface Optional {
  header: string;
  hidden: boolean;
  parts: Part[];
}

type Part = string | Slot | Optional;

const url = ({ url: value }: Request): Slot => ({ slot: 'url', before: '', value });
const key = (before: string): Slot => ({ slot: 'key', before, value: '<API_KEY>' });

const optional = ({ headers }: Request, write: (name: string, slot: (before: string) => Slot) => Part[]): Part[] =>
  headers.map(({ name, value = '' }) => ({
    header: name,
    hidden: value === '',
    parts: write(name, (before) => ({ slot: name, before, value })),
  }));

function curl(request: Request): Part[] {
  const { method, body } = request;
  const next = body === undefined ? ' ' : ' \\\n  ';
  return [
    'curl -H ',
    key('Authorization: Bearer '),
    ...(body === undefined ? [] : [`${next}-H 'Content-Type: application/json'`]),
    ...optional(request, (name, slot) => [`${next}-H `, slot(`${name}: `)]),
    // With --data a value that starts with @ would be the name of a file.
    ...(body === undefined ? [] : [`${next}--data-raw `, { slot: 'body', before: '', value: body }]),
    ...(method === (body === undefined ? 'GET' : 'POST') ? [] : [`${next}-X ${method}`]),
    next,
    url(request),
  ];
}

/** The call of fetch, in JavaScript and TypeScript. */
const fetching = (request: Request): Part[] => [
  'const response = await fetch(',
  url(request),
  `, {\n  method: '${request.method}',\n  headers: {\n    Authorization: `,
  key('Bearer '),
  ',\n',
  ...(request.body === undefined ? [] : ["    'Content-Type': 'application/json',\n"]),
  ...optional(request, (name, slot) => [`    '${name}': `, slot(''), ',\n']),
  '  },\n',
  ...(request.body === undefined ? [] : ['  body: ', { slot: 'body', before: '', value: request.body }, ',\n']),
  '});\n',
];

const hasBigInteger = ({ types }: Request) => types?.declarations.some((text) => text.includes('bigint')) ?? false;

const javascript = (request: Request): Part[] => [
  ...fetching(request),
  ...(hasBigInteger(request) ? ['// The text has every digit. JSON.parse would round integers beyond 2^53.\n'] : []),
  'console.log(response.status, await response.text());',
];

const exact = `// JSON.parse rounds integers beyond 2^53. With this reviver they are bigints.
const exact = (_: string, value: unknown, context?: { source?: string }) =>
  Number.isInteger(value) && !Number.isSafeInteger(value) ? BigInt(context?.source ?? 0) : value;

`;

function typescript(request: Request): Part[] {
  const { types } = request;
  // Without an import or export, TypeScript rejects await outside a function.
  const start = 'export {}; // Makes the file a module.\n\n';
  if (!types) return [start, ...fetching(request), 'console.log(response.status, await response.text());'];
  const isBig = hasBigInteger(request);
  return [
    start,
    ...types.declarations.map((text) => `${text}\n\n`),
    ...(isBig ? [exact] : []),
    ...fetching(request),
    // biome-ignore lint/suspicious/noTemplateCurlyInString: it is code of the sample.
    'if (!response.ok) throw new Error(`${response.status} ${await response.text()}`);\n',
    `const result: ${types.type} = JSON.parse(await response.text()${isBig ? ', exact' : ''});\n`,
    'console.log(response.status, result);',
  ];
}

const python = (request: Request): Part[] => [
  'from urllib.error import HTTPError\nfrom urllib.request import Request, urlopen\n\nrequest = Request(\n    ',
  url(request),
  `,\n    method='${request.method}',\n    headers={\n        'Authorization': `,
  key('Bearer '),
  ',\n',
  ...(request.body === undefined ? [] : ["        'Content-Type': 'application/json',\n"]),
  ...optional(request, (name, slot) => [`        '${name}': `, slot(''), ',\n']),
  '    },\n',
  ...(request.body === undefined
    ? []
    : ['    data=', { slot: 'body', before: '', value: request.body }, '.encode(),\n']),
  ')\ntry:\n    with urlopen(request) as response:\n        print(response.status, response.read().decode())\n',
  'except HTTPError as error:\n    print(error.code, error.read().decode())',
];

/** HTML of the parts. */
function toHtml(parts: Part[], grammar: Grammar, quote: (text: string) => string): string {
  const marks: Mark[] = [];
  let code = '';
  function add(part: Part): void {
    if (typeof part === 'string') {
      code += part;
      return;
    }
    const start = code.length;
    if ('slot' in part) {
      code += quote(part.before + part.value);
      const before = part.before && ` data-before="${escapeHtml(part.before)}"`;
      const attributes = `class="string" data-slot="${part.slot}"${before}`;
      marks.push({ start, end: code.length, attributes, plain: true });
    } else {
      part.parts.forEach(add);
      const attributes = `data-header="${part.header}"${part.hidden ? ' hidden' : ''}`;
      marks.push({ start, end: code.length, attributes, plain: false });
    }
  }
  parts.forEach(add);
  return highlight(code, grammar, marks);
}

export const samplesOf = (request: Request): Sample[] => [
  { language: 'curl', code: toHtml(curl(request), 'shellscript', quoteForShell) },
  { language: 'JavaScript', code: toHtml(javascript(request), 'javascript', quoteForProgram) },
  { language: 'TypeScript', code: toHtml(typescript(request), 'typescript', quoteForProgram) },
  { language: 'Python', code: toHtml(python(request), 'python', quoteForProgram) },
];
