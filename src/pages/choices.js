/** Applies what the browser remembers, the theme, the language of the samples and who is signed in, before the page is painted. A script of its own, which blocks. */
{
  const { dataset } = document.documentElement;
  const recall = () => {
    try {
      for (const name of ['theme', 'language', 'member']) dataset[name] = localStorage[name] ?? '';
    } catch {
      // The browser may block the storage.
    }
  };
  recall();
  // Back may show a page as it was before a choice on another one.
  addEventListener('pageshow', recall);
}
