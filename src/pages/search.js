/** Searches the operations, fields, headers, error codes and sections of the page, which is the index. */

/** What can be found: each has an id. `title` and `about` come from the page. */
function createIndex() {
  const entries = [];
  const add = ({ id }, title, about, more = '') => {
    entries.push({ id, title, about, words: `${title} ${more}`.toLowerCase() });
  };
  for (const section of document.querySelectorAll('.operation')) {
    const [title, route] = ['h3', '.route'].map((name) => section.querySelector(name).textContent);
    add(section, title, route, `${route} ${section.id}`);
  }
  for (const link of document.querySelectorAll('main :is(h2, h3) > a'))
    if (!link.closest('.operation')) add({ id: link.hash.slice(1) }, link.textContent, 'Section');
  for (const field of document.querySelectorAll('.fields > [id]')) {
    const place = field.closest('section').querySelector('h2, h3').textContent;
    add(field, field.querySelector('code').textContent, place);
  }
  for (const row of document.querySelectorAll('tr[id]')) {
    const [status, code, message] = [...row.cells].map((cell) => cell.textContent);
    add(row, code, `Error ${status}`, `${status} ${message}`);
  }
  return entries;
}

let index;

/** The entries that have all words; those whose title has the whole text come first. */
function find(text) {
  index ??= createIndex();
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return [];
  const whole = words.join(' ');
  const rank = ({ title }) => {
    const name = title.toLowerCase();
    return [name === whole, name.startsWith(whole), name.includes(whole), true].indexOf(true);
  };
  const found = index.filter((entry) => words.every((word) => entry.words.includes(word)));
  return found.sort((one, other) => rank(one) - rank(other));
}

function toItem({ id, title, about }) {
  const [item, link, small] = ['li', 'a', 'small'].map((name) => document.createElement(name));
  link.href = `#${id}`;
  small.textContent = about;
  link.append(title, ' ', small);
  item.append(link);
  return item;
}

/** Shows what is found in place of the sections. */
export function startSearch(search, contents) {
  const [list, sections, output] = ['.found', '.sections', 'output'].map((name) => contents.querySelector(name));

  function showFound() {
    const found = find(search.value);
    const isEmpty = search.value.trim() === '';
    list.replaceChildren(...found.map(toItem));
    list.hidden = found.length === 0;
    sections.hidden = !isEmpty;
    output.textContent = isEmpty ? '' : `${found.length || 'Nothing'} found`;
  }

  function clear() {
    search.value = '';
    showFound();
  }

  search.addEventListener('input', showFound);
  search.addEventListener('keydown', ({ key }) => {
    if (key === 'Escape') clear();
    else if (key === 'Enter') list.querySelector('a')?.click();
  });
  list.addEventListener('click', clear);
}
