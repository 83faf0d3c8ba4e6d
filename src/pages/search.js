/** Searches the operations, fields, headers, error codes and sections of the page, and their text. The page is the index. */

/** The text between a heading and the next one. */
function textBelow(heading) {
  let text = '';
  for (let next = heading.nextElementSibling; next && !next.matches('h2, h3, section'); next = next.nextElementSibling)
    text += ` ${next.textContent}`;
  return text;
}

/** What can be found: each has an id. `title` and `about` come from the page. */
function createIndex() {
  const entries = [];
  const add = ({ id }, title, about, more = '', text = '') => {
    entries.push({ id, title, about, words: `${title} ${more}`.toLowerCase(), text: text.toLowerCase() });
  };
  for (const section of document.querySelectorAll('.operation')) {
    const [title, method, path] = ['h3', '.method', '.route code'].map(
      (name) => section.querySelector(name).textContent,
    );
    const route = `${method} ${path.replace(/^https?:\/\/[^/]+/, '')}`;
    add(section, title, route, `${route} ${section.id}`, section.querySelector('.words').textContent);
  }
  for (const link of document.querySelectorAll('main :is(h2, h3) > a'))
    if (!link.closest('.operation'))
      add({ id: link.hash.slice(1) }, link.textContent, 'Section', '', textBelow(link.parentElement));
  for (const field of document.querySelectorAll('.fields > [id]')) {
    const place = field.closest('section').querySelector('h2, h3').textContent;
    add(field, field.querySelector('code').textContent, place);
  }
  for (const row of document.querySelectorAll('tr[id]')) {
    const [status, code, about] = [...row.cells].map((cell) => cell.textContent);
    const remedy = row.querySelector('.remedy').textContent;
    add(row, code, `Error ${status}`, `${status} ${about.replace(remedy, '')}`, remedy);
  }
  return entries;
}

const nothing = 'Nothing found. Try key, token, paging, retry, update or version.';

let index;

/** The entries that have all words; those whose title has the whole text come first, and those that have them in their text alone come last. */
function find(text) {
  index ??= createIndex();
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return [];
  const whole = words.join(' ');
  const has = (text) => words.every((word) => text.includes(word));
  const rank = ({ title, words: own }) => {
    const name = title.toLowerCase();
    return [name === whole, name.startsWith(whole), name.includes(whole), has(own), true].indexOf(true);
  };
  const found = index.filter((entry) => has(`${entry.words} ${entry.text}`));
  return found.sort((one, other) => rank(one) - rank(other));
}

function toItem({ id, title, about }, at) {
  const [link, small] = ['a', 'small'].map((name) => document.createElement(name));
  link.role = 'option';
  link.id = `found-${at}`;
  link.href = `#${id}`;
  small.textContent = about;
  link.append(title, ' ', small);
  return link;
}

/** Shows what is found in place of the sections (ARIA Authoring Practices Guide, combobox with a list). */
export function startSearch(search, contents) {
  const [list, sections, output] = ['.found', '.sections', 'output'].map((name) => contents.querySelector(name));
  let marked = 0;

  function mark(at) {
    const links = list.querySelectorAll('a');
    marked = (at + links.length) % (links.length || 1);
    for (const [index, link] of links.entries()) link.ariaSelected = String(index === marked);
    links[marked]?.scrollIntoView({ block: 'nearest' });
    if (links.length > 0) search.setAttribute('aria-activedescendant', links[marked].id);
    else search.removeAttribute('aria-activedescendant');
  }

  function showFound() {
    const found = find(search.value);
    const isEmpty = search.value.trim() === '';
    list.replaceChildren(...found.map(toItem));
    list.hidden = found.length === 0;
    search.ariaExpanded = String(!list.hidden);
    sections.hidden = !isEmpty;
    output.textContent = isEmpty ? '' : found.length > 0 ? `${found.length} found` : nothing;
    mark(0);
  }

  function clear() {
    search.value = '';
    showFound();
  }

  const actions = {
    Escape: clear,
    Enter: () => list.querySelectorAll('a')[marked]?.click(),
    ArrowDown: () => mark(marked + 1),
    ArrowUp: () => mark(marked - 1),
  };
  search.addEventListener('input', showFound);
  search.addEventListener('keydown', (event) => {
    if (!actions[event.key] || search.value === '') return;
    event.preventDefault();
    actions[event.key]();
  });
  list.addEventListener('click', clear);
}
