/** Colors code ahead of time: as HTML with classes, because the page's policy allows no inline styles. */
import { createCssVariablesTheme, createHighlighterCoreSync } from 'shiki/core';
import { createJavaScriptRegexEngine } from 'shiki/engine/javascript';
import csharp from 'shiki/langs/csharp.mjs';
import go from 'shiki/langs/go.mjs';
import java from 'shiki/langs/java.mjs';
import javascript from 'shiki/langs/javascript.mjs';
import json from 'shiki/langs/json.mjs';
import php from 'shiki/langs/php.mjs';
import python from 'shiki/langs/python.mjs';
import ruby from 'shiki/langs/ruby.mjs';
import shellscript from 'shiki/langs/shellscript.mjs';
import typescript from 'shiki/langs/typescript.mjs';

const langs = { csharp, go, java, javascript, json, php, python, ruby, shellscript, typescript };
export type Grammar = keyof typeof langs;

const theme = createCssVariablesTheme({ name: 'classes', variablePrefix: '--' });
const highlighter = createHighlighterCoreSync({
  themes: [theme],
  langs: Object.values(langs),
  engine: createJavaScriptRegexEngine(),
});

/** The classes of the colors of the theme. Any other text has the color of the page. */
const classes: Record<string, string> = {
  'var(--token-keyword)': 'keyword',
  'var(--token-string)': 'string',
  'var(--token-string-expression)': 'string',
  'var(--token-constant)': 'constant',
  'var(--token-function)': 'function',
  'var(--token-comment)': 'comment',
};

/** A part of the code that gets an element of its own. Marks can contain others, but do not overlap. */
export interface Mark {
  start: number;
  end: number;
  /** The attributes of the element. */
  attributes: string;
  /** Whether the text keeps one color: the page's script replaces it. */
  plain: boolean;
}

export const escapeHtml = (text: string) =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');

/** The classes of the parts of `code` that have one, in order; neighbors of the same class are one part. */
function colorsOf(code: string, lang: Grammar): { start: number; end: number; name: string }[] {
  const parts: { start: number; end: number; name: string }[] = [];
  // No limit of time: on a busy machine it would leave the rest of a line without colors.
  const options = { lang, theme: 'classes', tokenizeTimeLimit: 0 };
  for (const { content, offset, color = '' } of highlighter.codeToTokensBase(code, options).flat()) {
    const name = classes[color];
    const last = parts.at(-1);
    if (name === undefined || content.trim() === '') continue;
    if (last?.end === offset && last.name === name) last.end += content.length;
    else parts.push({ start: offset, end: offset + content.length, name });
  }
  return parts;
}

/** HTML of `code`, with an element for each mark. */
export function highlight(code: string, lang: Grammar, marks: Mark[] = []): string {
  const colors = colorsOf(code, lang);
  const ends = [...colors, ...marks].flatMap(({ start, end }) => [start, end]);
  const cuts = [...new Set([0, code.length, ...ends])].sort((one, other) => one - other);
  let html = '';
  for (const [index, at] of cuts.entries()) {
    html += '</span>'.repeat(marks.filter(({ end }) => end === at).length);
    const next = cuts[index + 1];
    if (next === undefined) break;
    // The outer mark is longer.
    const opened = marks.filter(({ start }) => start === at).sort((one, other) => other.end - one.end);
    for (const { attributes } of opened) html += `<span ${attributes}>`;
    const text = escapeHtml(code.slice(at, next));
    const isPlain = marks.some(({ start, end, plain }) => plain && start <= at && at < end);
    const color = isPlain ? undefined : colors.find(({ start, end }) => start <= at && at < end);
    html += color ? `<span class="${color.name}">${text}</span>` : text;
  }
  return html;
}
