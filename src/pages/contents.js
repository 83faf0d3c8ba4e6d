/** Marks the section that is read in the contents, and leads to the search. */

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
  // On a wide screen style shows them in any case; only open ones are known to be reachable, though, to tools such as axe.
  const isWide = matchMedia('(width >= 60rem)');
  const settle = () => {
    menu.open = isWide.matches;
  };
  isWide.addEventListener('change', settle);
  settle();
  contents.addEventListener('click', ({ target }) => {
    if (target.closest('a')) settle();
  });
  closeOnEscape(menu);
  const openSearch = () => {
    menu.open = true;
    search.focus();
  };
  contents.querySelector('.find').addEventListener('click', openSearch);
  if (isWide.matches && matchMedia('(hover: hover)').matches) search.placeholder = 'Search (press /)';
  addEventListener('keydown', (event) => {
    const isWriting = event.target.matches('input, textarea, select');
    if (!(event.key === 'k' && (event.ctrlKey || event.metaKey)) && (event.key !== '/' || isWriting)) return;
    event.preventDefault();
    openSearch();
  });
  // From the page for a mistyped address.
  const wanted = new URLSearchParams(location.search).get('search');
  if (wanted) {
    search.value = wanted;
    openSearch();
    search.dispatchEvent(new Event('input'));
  }
}
