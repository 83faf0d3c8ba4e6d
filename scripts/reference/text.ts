/** Converts the Markdown of a document to HTML. */
import { Marked } from 'marked';

// A message can contain <API_KEY>: no text of a document is HTML.
const marked = new Marked({ tokenizer: { html: () => undefined, tag: () => undefined } });

/** HTML of a text of one or more paragraphs. */
export const toHtml = (markdown = '') => (marked.parse(markdown) as string).trim();

/** HTML of a text within a paragraph. */
export const toInlineHtml = (markdown = '') => marked.parseInline(markdown) as string;
