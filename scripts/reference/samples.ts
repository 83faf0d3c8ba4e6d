/** Writes requests as commands and programs that run as they are, once the key is filled in. The page's script puts the values of the panel in. */
import { quoteForGo, quoteForProgram, quoteForShell } from '../../src/pages/quoting.js';
import { escapeHtml, type Grammar, highlight, type Mark } from './highlight.ts';

export interface Request {
  method: string;
  url: string;
  /** The parameters that are headers, with their values. A header without one is hidden. */
  headers: { name: string; value: string | undefined }[];
  /** JSON on one line. */
  body: string | undefined;
  /** Whether the response can have an integer beyond 2^53. */
  hasBigInteger: boolean;
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

/** A tag: the parts of a template, some of which are lists. */
const code = (texts: TemplateStringsArray, ...values: (Part | Part[])[]): Part[] =>
  texts.flatMap((text, index) => [text, ...[values[index] ?? []].flat()]);

const key = (before: string): Slot => ({ slot: 'key', before, value: '<API_KEY>' });
const slot = (name: string, value: string, before = ''): Slot => ({ slot: name, before, value });

const optional = ({ headers }: Request, write: (name: string, value: string) => Part[]): Part[] =>
  headers.map(({ name, value = '' }) => ({ header: name, hidden: value === '', parts: write(name, value) }));

/** What only a request with a body has. */
const withBody = ({ body }: Request, write: (value: Slot) => Part[]): Part[] =>
  body === undefined ? [] : write(slot('body', body));

function curl(request: Request): Part[] {
  const { method, body, url } = request;
  const next = body === undefined ? ' ' : ' \\\n  ';
  const other = method === (body === undefined ? 'GET' : 'POST') ? '' : `${next}-X ${method}`;
  const type = withBody(request, () => [`${next}-H 'Content-Type: application/json'`]);
  const headers = optional(request, (name, value) => code`${next}-H ${slot(name, value, `${name}: `)}`);
  // With --data a value that starts with @ would be the name of a file.
  const data = withBody(request, (value) => code`${next}--data-raw ${value}`);
  return code`curl -H ${key('Authorization: Bearer ')}${type}${headers}${data}${other}${next}${slot('url', url)}`;
}

/** The call of fetch. */
const fetchOf = (request: Request): Part[] => code`await fetch(${slot('url', request.url)}, {
  method: '${request.method}',
  headers: {
    Authorization: ${key('Bearer ')},
${withBody(request, () => ["    'Content-Type': 'application/json',\n"])}${optional(request, (name, value) => code`    '${name}': ${slot(name, value)},\n`)}  },
${withBody(request, (value) => code`  body: ${value},\n`)}});
`;

const exactText = ({ hasBigInteger }: Request) =>
  hasBigInteger ? '// The text has every digit. JSON.parse would round integers beyond 2^53.\n' : '';

const javascript = (request: Request): Part[] =>
  code`const response = ${fetchOf(request)}${exactText(request)}console.log(response.status, await response.text());`;

const typescript = (request: Request): Part[] => code`type ApiError = { code: string; message: string; status: number };

const response: Response = ${fetchOf(request)}if (!response.ok) {
  const { code, message } = (await response.json()) as ApiError;
  throw new Error(\`\${code}: \${message}\`);
}
${exactText(request)}console.log(response.status, await response.text());`;

const go = (request: Request): Part[] => {
  const imports = ['fmt', 'io', 'net/http', ...(request.body === undefined ? [] : ['strings'])];
  const body: Part[] = request.body === undefined ? ['nil'] : code`strings.NewReader(${slot('body', request.body)})`;
  const set = (name: string, value: Slot): Part[] => code`\trequest.Header.Set("${name}", ${value})\n`;
  return code`package main

import (
${imports.map((name) => `\t"${name}"\n`)})

func main() {
	request, err := http.NewRequest("${request.method}", ${slot('url', request.url)}, ${body})
	if err != nil {
		panic(err)
	}
${set('Authorization', key('Bearer '))}${withBody(request, () => ['\trequest.Header.Set("Content-Type", "application/json")\n'])}${optional(request, (name, value) => set(name, slot(name, value)))}	response, err := http.DefaultClient.Do(request)
	if err != nil {
		panic(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	fmt.Println(response.StatusCode, string(text), err)
}`;
};

const python = (request: Request): Part[] => code`from urllib.error import HTTPError
from urllib.request import Request, urlopen

request = Request(
    ${slot('url', request.url)},
    method='${request.method}',
    headers={
        'Authorization': ${key('Bearer ')},
${withBody(request, () => ["        'Content-Type': 'application/json',\n"])}${optional(request, (name, value) => code`        '${name}': ${slot(name, value)},\n`)}    },
${withBody(request, (value) => code`    data=${value}.encode(),\n`)})
try:
    with urlopen(request) as response:
        print(response.status, response.read().decode())
except HTTPError as error:
    print(error.code, error.read().decode())`;

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
  { language: 'Go', code: toHtml(go(request), 'go', quoteForGo) },
];
