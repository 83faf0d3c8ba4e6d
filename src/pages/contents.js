/** Marks the section that is read in the contents, leads to the search, and changes the theme. */

const theme = document.querySelector('#theme');
addEventListener('pageshow', () => {
  theme.value = document.documentElement.dataset.theme ?? '';
});
theme.addEventListener('change', () => remember('theme', theme.value));

const contents = document.querySelector('.contents');
const links = [...(contents?.querySelectorAll('.sections a') ?? [])];
const targets = links.map((link) => document.getElementById(link.hash.slice(1)));

/** The link to the last section that begins above the upper quarter of the window. */
function currentLink() {
  if (scrollY > 0 && innerHeight + scrollY >= document.documentElement.scrollHeight - 2) return links.at(-1);
  return links.findLast((_, index) => targets[index].getBoundingClientRect().top < innerHeight / 4);
}

function markCurrent() {
  const current = currentLink();
  const marked = contents.querySelector('[aria-current]');
  if (current === marked) return;
  marked?.removeAttribute('aria-current');
  if (!current) return;
  current.ariaCurrent = 'location';
  // Within a long list of contents only: the page itself must not move.
  const [{ top, bottom }, box] = [current, contents].map((element) => element.getBoundingClientRect());
  if (top < box.top || bottom > box.bottom) contents.scrollTop += top - box.top - box.height / 2;
}

if (contents) {
  // Browsers send these events once in a frame.
  for (const event of ['scroll', 'resize', 'hashchange']) addEventListener(event, markCurrent, { passive: true });
  markCurrent();
  const menu = contents.querySelector('details');
  const search = contents.querySelector('#search');
  startSearch(search, contents);
  contents.addEventListener('click', ({ target }) => {
    if (target.closest('a')) menu.open = false;
  });
  menu.addEventListener('keydown', ({ key }) => {
    if (key !== 'Escape') return;
    menu.open = false;
    menu.querySelector('summary').focus();
  });
  addEventListener('keydown', (event) => {
    if (event.key !== 'k' || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    menu.open = true;
    search.focus();
  });
}
