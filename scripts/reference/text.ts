/** Converts the Markdown of a document to HTML. */
import { Marked } from 'marked';

// A message can contain <API_KEY>: no text of a document is HTML.
const marked = new Marked({ tokenizer: { html: () => undefined, tag: () => undefined } });

/** HTML of a text of one or more paragraphs. */
export const toHtml = (markdown = '') => (marked.parse(markdown) as string).trim();

/** HTML of a text within a paragraph. */
export const toInlineHtml = (markdown = '') => marked.parseInline(markdown) as string;

/** A part of an id for a title. */
export const idOf = (title: string) =>
  title
    .toLowerCase()
    .replace(/[^\w.]+/g, '-')
    .replace(/^-|-$/g, '');

/** HTML of a text whose headings link to themselves. The id of a heading of the third level starts with that of its section. */
export function toLinkedHtml(markdown: string): string {
  let section = '';
  return toHtml(markdown).replace(/<h([1-3])>(.*?)<\/h\1>/g, (_, level: string, title: string) => {
    const name = idOf(title);
    if (level === '2') section = name;
    const id = level === '3' ? `${section}/${name}` : name;
    return `<h${level} id="${id}"><a href="#${id}">${title}</a></h${level}>`;
  });
}
