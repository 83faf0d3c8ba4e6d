/** Applies what the browser remembers, the theme and the language of the samples, before the page is painted. A script of its own, which blocks. */
{
  const { dataset } = document.documentElement;
  try {
    for (const name of ['theme', 'language']) if (localStorage[name]) dataset[name] = localStorage[name];
  } catch {
    // The browser may block the storage.
  }
}
