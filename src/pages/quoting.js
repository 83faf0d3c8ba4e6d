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
 * For Go, whose double-quoted strings have the escapes of JSON.
 * @param {string} text
 */
export const quoteForGo = (text) => JSON.stringify(text.toWellFormed());
