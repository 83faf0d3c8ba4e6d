/** What the panels of the reference page would send. The text of the page needs no script. */

// Requests go only to the server that served the page.
const base = new URL(document.body.dataset.server ?? '', location.href).href;
const key = document.querySelector('#key');

/** The key in the field; also if `Bearer` or the whole header was pasted with it. */
const enteredKey = () => key?.value.trim().replace(/^(?:authorization\s*:\s*)?bearer\s+/i, '') ?? '';

for (const mark of document.querySelectorAll('[data-sunset]'))
  if (Date.now() >= Date.parse(mark.dataset.sunset)) mark.textContent = mark.textContent.replace('Will be r', 'R');

/** The URL, headers and body of a form. Empty fields are left out. */
function valuesOf({ dataset: { path }, elements }) {
  const headers = {};
  const query = new URLSearchParams();
  let url = base + path;
  let body;
  for (const { name, value, dataset } of elements) {
    if (dataset.in === 'path') url = url.replace(`{${name}}`, () => encodeURIComponent(value.toWellFormed()));
    else if (!value) continue;
    else if (dataset.in === 'query') query.append(name, value);
    else if (dataset.in === 'header') headers[name] = value;
    else if (dataset.in === 'body') body = value.toWellFormed();
  }
  if (query.size > 0) url += `?${query}`;
  return { url, headers, body };
}

/** A value for Idempotency-Key. crypto.randomUUID does not exist over plain http from another machine. */
const newRetryKey = () => crypto.getRandomValues(new BigUint64Array(2)).join('');

/** Keeps a fresh key in the field. `renewOwn`: the next request is another one, and needs another key. A retry needs the same. */
function keepFresh(field, button) {
  let made;
  const renew = () => {
    made = newRetryKey();
    field.value = made;
    field.dispatchEvent(new Event('input', { bubbles: true }));
  };
  button.addEventListener('click', renew);
  // A key that the reader entered stays.
  return { renew, renewOwn: () => field.value === made && renew() };
}

async function sendFrom(form) {
  const outcome = form.querySelector('.outcome');
  outcome.className = 'outcome';
  outcome.textContent = 'Sending…';
  form.querySelector('.answer').hidden = true;
  const values = { ...valuesOf(form), key: enteredKey() };
  const panel = await import('./panel.js').catch(() => undefined);
  if (panel) return panel.send(form, values);
  outcome.classList.add('bad');
  outcome.textContent = 'Not sent: the server cannot be reached. Try again, or reload the page.';
  return false;
}

for (const form of document.querySelectorAll('form.panel')) {
  const button = form.querySelector('[type="submit"]');
  const fresh = form.querySelector('.fresh');
  const retryKey = fresh && keepFresh(fresh.parentElement.querySelector('input'), fresh);
  // The generated page disables it: before this script, or without it, it would do nothing.
  button.disabled = false;
  // After the samples listen.
  if (retryKey) queueMicrotask(retryKey.renew);
  form.addEventListener('submit', async (event) => {
    event.preventDefault();
    // A second click would send a second request.
    if (button.disabled) return;
    const hadFocus = document.activeElement === button;
    button.disabled = true;
    try {
      if (await sendFrom(form)) retryKey?.renewOwn();
    } finally {
      button.disabled = false;
      // A button that is disabled loses the focus.
      if (hadFocus && document.activeElement === document.body) button.focus({ preventScroll: true });
    }
  });
  form.querySelector('.example')?.addEventListener('change', ({ target }) => {
    const field = form.querySelector('textarea');
    field.value = target.value;
    field.dispatchEvent(new Event('input', { bubbles: true }));
  });
}
