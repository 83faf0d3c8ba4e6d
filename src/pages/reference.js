/** Sends requests from the reference page, and copies its samples. The text of the page needs no script. */

const { example, server } = document.body.dataset;
// Requests go only to the server that served the page.
const base = new URL(server, location.href).href;
const key = document.querySelector('#key');

for (const code of document.querySelectorAll('.code code, main p code'))
  if (code.textContent.includes(example)) code.textContent = code.textContent.replaceAll(example, base);

for (const mark of document.querySelectorAll('[data-sunset]'))
  if (Date.now() >= Date.parse(mark.dataset.sunset)) mark.textContent = mark.textContent.replace('Will be r', 'R');

for (const button of document.querySelectorAll('.copy')) {
  // Announces the result to a screen reader.
  button.ariaLive = 'polite';
  button.addEventListener('click', async () => {
    button.textContent = (await copy(button.parentElement.querySelector('code'))) ? 'Copied' : 'Copy the selection';
    setTimeout(() => {
      button.textContent = 'Copy';
    }, 2000);
  });
}

function hideHints() {
  for (const hint of document.querySelectorAll('.key-missing')) hint.hidden = key.value.trim() !== '';
}
key.addEventListener('input', hideHints);
addEventListener('pageshow', hideHints);

/** The same JSON, indented, with every digit. Any other text unchanged. */
function indent(text) {
  try {
    const keep = (_, value, { source }) => (typeof value === 'number' ? JSON.rawJSON(source) : value);
    return JSON.stringify(JSON.parse(text, keep), null, 2);
  } catch {
    return text;
  }
}

/** The request of a form. Empty fields are left out. */
function requestOf({ dataset: { method, path }, elements }) {
  const headers = new Headers();
  const query = new URLSearchParams();
  let url = base + path;
  let body;
  if (key.value.trim()) headers.set('Authorization', `Bearer ${key.value.trim()}`);
  for (const { name, value, dataset } of elements) {
    if (dataset.in === 'path') url = url.replace(`{${name}}`, encodeURIComponent(value));
    else if (!value) continue;
    else if (dataset.in === 'query') query.append(name, value);
    else if (dataset.in === 'header') headers.set(name, value);
    else if (dataset.in === 'body') body = value;
  }
  if (body !== undefined) headers.set('Content-Type', 'application/json');
  if (query.size > 0) url += `?${query}`;
  return new Request(url, { method, headers, body, cache: 'no-store', credentials: 'omit' });
}

async function send(form) {
  const [outcome, answer] = ['.outcome', '.answer'].map((name) => form.querySelector(name));
  const [body, headers] = answer.querySelectorAll('pre');
  const box = body.parentElement;
  outcome.className = 'outcome';
  outcome.textContent = 'Sending…';
  answer.hidden = true;
  try {
    const request = requestOf(form);
    const response = await fetch(request);
    const text = await response.text();
    body.textContent = indent(text);
    box.hidden = text === '';
    // A long response can be scrolled with the keyboard only if it is focusable.
    box.tabIndex = 0;
    headers.textContent = [...response.headers].map(([name, value]) => `${name}: ${value}`).join('\n');
    answer.hidden = false;
    outcome.classList.add(response.status < 400 ? 'good' : 'bad');
    outcome.textContent = `${response.status} ${response.statusText}`;
  } catch (error) {
    // fetch does not say why the server cannot be reached.
    const reason = error instanceof TypeError && !navigator.onLine ? 'You are offline.' : error.message;
    outcome.classList.add('bad');
    outcome.textContent = `No response: ${reason}`;
  }
  // On a phone the response would be below the edge of the screen.
  const last = answer.hidden ? outcome : answer;
  last.scrollIntoView({ block: 'nearest' });
}

for (const form of document.forms) {
  let sending = false;
  form.addEventListener('submit', async (event) => {
    event.preventDefault();
    // A second click would add a second animal.
    if (sending) return;
    sending = true;
    await send(form);
    sending = false;
  });
  form.querySelector('.example')?.addEventListener('change', ({ target }) => {
    form.querySelector('textarea').value = target.value;
  });
}
