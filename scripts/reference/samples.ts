/** Writes requests as commands and programs that run as they are, once the key is filled in: samples/ has their templates. The page's script puts the values of the panel in. */
import { fileURLToPath } from 'node:url';
import { Eta } from 'eta';
import { quoteDouble, quoteForProgram, quoteForShell, quoteSingle } from '../../src/pages/quoting.js';
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

type Language = [name: string, template: string, grammar: Grammar, quote: (text: string) => string];

const languages: Language[] = [
  ['curl', 'curl', 'shellscript', quoteForShell],
  ['JavaScript', 'javascript', 'javascript', quoteForProgram],
  ['TypeScript', 'javascript', 'typescript', quoteForProgram],
  ['Python', 'python', 'python', quoteForProgram],
  ['Go', 'go', 'go', quoteDouble],
  ['Java', 'java', 'java', quoteDouble],
  ['C#', 'csharp', 'csharp', quoteDouble],
  ['PHP', 'php', 'php', quoteSingle],
  ['Ruby', 'ruby', 'ruby', quoteSingle],
];

// Lines end as in the templates: their programs are preformatted.
const eta = new Eta({ views: fileURLToPath(new URL('samples', import.meta.url)), autoTrim: false, cache: true });

function sampleOf({ method, url, headers, body, hasBigInteger }: Request, language: Language) {
  const [name, template, grammar, quote] = language;
  /** In the rendered text, characters for private use enclose each, after its index. */
  const found: Omit<Mark, 'start' | 'end'>[] = [];
  const enclose = (attributes: string, plain: boolean, text: string) =>
    `\u{e000}${found.push({ attributes, plain }) - 1};${text}\u{e001}`;
  /** Text that the script replaces: `before` and the value, quoted. */
  function slot(slotName: string, value: string, before = ''): string {
    const quoted = quote(before + value);
    const text = before && value ? quoted.replace(value, () => enclose('class="whole"', true, value)) : quoted;
    const kept = before && ` data-before="${escapeHtml(before)}"`;
    return enclose(`class="string" data-slot="${slotName}"${kept}`, true, text);
  }
  const text = eta.render(`./${template}`, {
    method,
    url: slot('url', url),
    key: (before: string) => slot('key', '<API_KEY>', before),
    body: body && slot('body', body),
    /** Parts that only a request with the header has. */
    headers: (write: (header: string, value: (before?: string) => string) => string) =>
      headers
        .map(({ name: header, value = '' }) => {
          const attributes = `data-header="${header}"${value ? '' : ' hidden'}`;
          return enclose(
            attributes,
            false,
            write(header, (before) => slot(header, value, before)),
          );
        })
        .join(''),
    isTyped: grammar === 'typescript',
    hasBigInteger,
  });
  const marks: Mark[] = [];
  const open: Mark[] = [];
  let code = '';
  for (const part of text.trimEnd().split(/(\u{e000}\d+;|\u{e001})/u)) {
    const index = /^\u{e000}(\d+)/u.exec(part)?.[1];
    if (index) open.push({ ...(found[Number(index)] as Mark), start: code.length });
    else if (part === '\u{e001}') marks.push({ ...(open.pop() as Mark), end: code.length });
    else code += part;
  }
  return { language: name, code: highlight(code, grammar, marks) };
}

export const samplesOf = (request: Request) => languages.map((language) => sampleOf(request, language));
