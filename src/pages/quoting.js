/** Quotes text for the programs in the samples. The generator of the page uses it, too. */

/**
 * For a POSIX shell.
 * @param {string} text
 */
export const quoteForShell = (text) => (/^[\w./:-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`);

/**
 * For JavaScript, TypeScript and Python: they have the escapes of JSON.
 * @param {string} text
 */
export const quoteForProgram = (text) =>
  `'${JSON.stringify(text).slice(1, -1).replaceAll('\\"', '"').replaceAll("'", "\\'")}'`;

/**
 * For Go, Java and C#, whose double-quoted strings have the escapes of JSON. In C# the other characters end a line.
 * @param {string} text
 */
export const quoteDouble = (text) =>
  JSON.stringify(text.toWellFormed()).replace(
    /[\u0085\u2028\u2029]/g,
    (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );

/**
 * For PHP and Ruby, whose single-quoted strings have two escapes.
 * @param {string} text
 */
export const quoteSingle = (text) => `'${text.replace(/[\\']/g, '\\$&')}'`;
