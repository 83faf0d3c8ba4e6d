/** Converts the Markdown of a document to HTML, and arranges the document's description for the page. */
import { Marked, type Token, type Tokens } from 'marked';

// A message can contain <API_KEY>: no text of a document is HTML.
const marked = new Marked({ tokenizer: { html: () => undefined, tag: () => undefined } });

/** HTML of a text of one or more paragraphs. */
export const toHtml = (markdown = '') => (marked.parse(markdown) as string).trim();

/** HTML of a text within a paragraph. */
export const toInlineHtml = (markdown = '') => marked.parseInline(markdown) as string;

export interface ErrorRow {
  status: string;
  code: string;
  /** Markdown, or HTML. */
  message: string;
}

interface Section {
  /** Empty for the text before the first heading. */
  title: string;
  /** HTML. */
  text: string;
}

interface Description {
  /** HTML of what the service is. */
  lead: string;
  /** The sections on requests. */
  requests: Section[];
  /** HTML of what holds for every error. */
  aboutErrors: string;
  errors: ErrorRow[];
}

const isSteps = (token: Token | undefined) => token?.type === 'list' && (token as Tokens.List).ordered;
const isErrorTable = (token: Token | undefined): token is Tokens.Table =>
  token?.type === 'table' && (token as Tokens.Table).header.some(({ text }) => text.toLowerCase() === 'code');

/** The page has its own steps, and links to the account pages only if the server has them. */
const isAboutAccounts = ({ raw }: Token) => /`\/account`|\]\(account/.test(raw);

const html = (tokens: Token[]) => marked.parser(tokens).trim();

/** Splits the description of a document: its steps are left out, and its errors stand apart. */
export function splitDescription(markdown: string): Description {
  const [first, ...rest] = marked.lexer(markdown).filter(({ type }) => type !== 'space');
  const lead: Token[] = [];
  if (first && isSteps(rest[0])) {
    // "Three steps lead to your first call:" announces what is left out. The paragraph after the steps is about the service, too.
    lead.push(...marked.lexer(first.raw.replace(/[^.]*:\s*$/, '')), ...rest.splice(0, 2).slice(1));
  } else if (first) lead.push(first);
  const parts: { title: string; tokens: Token[] }[] = [{ title: '', tokens: [] }];
  const aboutErrors: Token[] = [];
  const rows: Tokens.TableCell[][] = [];
  for (const [index, token] of rest.entries()) {
    const part = parts.at(-1) as (typeof parts)[number];
    const title = token.type === 'heading' ? (token as Tokens.Heading).text : undefined;
    if (title !== undefined) parts.push({ title: title === 'Requests' ? '' : title, tokens: [] });
    else if (isErrorTable(token)) rows.push(...token.rows);
    else if (part.title === 'Errors' || isErrorTable(rest[index + 1])) aboutErrors.push(token);
    else if (!isSteps(token) && !isAboutAccounts(token)) part.tokens.push(token);
  }
  return {
    lead: html(lead),
    requests: [...Map.groupBy(parts, ({ title }) => title)]
      .map(([title, same]) => ({ title, text: html(same.flatMap((part) => part.tokens)) }))
      .filter(({ text }) => text !== ''),
    aboutErrors: html(aboutErrors).replace(/:(?=<\/p>$)/, '.'),
    errors: rows.map(([status, code, message]) => ({
      status: status?.text ?? '',
      code: (code?.text ?? '').replaceAll('`', ''),
      message: message?.text ?? '',
    })),
  };
}

/** HTML of a description without the paragraphs that lead to the account pages. */
export const withoutAccounts = (markdown = '') =>
  html(marked.lexer(markdown).filter((token) => !isAboutAccounts(token)));
