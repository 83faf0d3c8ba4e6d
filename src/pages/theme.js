/** Changes the theme. choices.js applies it before the first paint. */

const { dataset } = document.documentElement;

/** Remembers a choice. An empty value removes it. */
function remember(name, value) {
  dataset[name] = value;
  try {
    if (value) localStorage[name] = value;
    else localStorage.removeItem(name);
  } catch {
    // The browser may block the storage.
  }
}

const theme = document.querySelector('#theme');
addEventListener('pageshow', () => {
  theme.value = dataset.theme ?? '';
});
theme.addEventListener('change', () => remember('theme', theme.value));

/** Closes the element with Escape, and leads the keyboard back to its summary. */
function closeOnEscape(details) {
  details.addEventListener('keydown', (event) => {
    if (event.key !== 'Escape' || !details.open) return;
    event.stopPropagation();
    details.open = false;
    details.querySelector('summary').focus();
  });
}
closeOnEscape(document.querySelector('.menu'));
