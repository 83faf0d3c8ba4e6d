/** The key, and what the panels of the reference page would send. The text of the page needs no script. */

// Requests go only to the server that served the page.
const base = new URL(document.body.dataset.server ?? '', location.href).href;
const key = document.querySelector('#key');
const keyFault = document.querySelector('#key-fault');

/** The key in the field; also if `Bearer` or the whole header was pasted with it. */
const enteredKey = () => key?.value.trim().replace(/^(?:authorization\s*:\s*)?bearer\s+/i, '') ?? '';

function showKeyState() {
  const has = enteredKey() !== '';
  for (const link of document.querySelectorAll('.key-state')) link.textContent = has ? 'Key set' : 'Enter a key first';
  for (const button of document.querySelectorAll('.with-key')) button.hidden = !has;
  if (has) sayOfKey('');
}

/** Shows a message at the field of the key; none if it is empty. */
function sayOfKey(message) {
  keyFault.textContent = message;
  if (message) key.setAttribute('aria-invalid', 'true');
  else key.removeAttribute('aria-invalid');
}

const showKey = document.querySelector('#show-key');
showKey?.addEventListener('click', () => {
  const isShown = showKey.ariaPressed !== 'true';
  showKey.ariaPressed = String(isShown);
  key.classList.toggle('shown', isShown);
});
key?.addEventListener('input', showKeyState);
addEventListener('pageshow', () => key && showKeyState());

// The page of a new key leads here, and hands it over: account.js.
if (key && location.hash.startsWith('#new-key-')) {
  const channel = new BroadcastChannel(location.hash);
  channel.addEventListener('message', ({ data }) => {
    // Another tab may ask, too.
    if (!data) return;
    channel.close();
    key.value = data;
    showKeyState();
  });
  channel.postMessage('');
  // A reload asks for nothing.
  history.replaceState(null, '', '#start');
}

for (const mark of document.querySelectorAll('[data-sunset]'))
  if (Date.now() >= Date.parse(mark.dataset.sunset)) mark.textContent = mark.textContent.replace('Will be r', 'R');

// Without BASE_URL the server names the address of the examples.
for (const place of document.querySelectorAll('[data-address], [data-slot="url"]'))
  place.textContent = place.textContent.replace(/https:\/\/api\.example\.com\/\w+/, () => base);

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

/** Writes values into the fields of a form. Others become empty. */
function fillForm(form, values) {
  for (const field of form.elements)
    if (field.dataset.in === 'query' || field.dataset.in === 'path') field.value = values[field.name] ?? '';
  form.dispatchEvent(new Event('input', { bubbles: true }));
}

/** A UUID (RFC 9562, section 5.4). crypto.randomUUID does not exist over plain http from another machine. */
function newRetryKey() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = (bytes[6] & 0x0f) | 0x40;
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  const digits = Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
  return digits.replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
}

/** Keeps a fresh key in the field, and sends a request again with the last one. */
function keepFresh(form) {
  const [button, again] = ['.fresh', '.again'].map((name) => form.querySelector(name));
  const field = button.parentElement.querySelector('input');
  let made;
  let last;
  const put = (value) => {
    field.value = value;
    field.dispatchEvent(new Event('input', { bubbles: true }));
  };
  const renew = () => {
    made = newRetryKey();
    put(made);
  };
  button.addEventListener('click', renew);
  again.addEventListener('click', () => {
    const next = field.value;
    put(last);
    form.requestSubmit();
    put(next);
  });
  // After the samples listen.
  queueMicrotask(renew);
  return {
    /** Call it with a request. Returns what to call after its response. */
    sent() {
      const used = field.value;
      return (isDone) => {
        last = used;
        again.hidden = used === '';
        // The next request is another one, and needs another key. A key that the reader entered stays, and a retry needs the same.
        if (isDone && used === made) renew();
      };
    },
  };
}

async function sendFrom(form) {
  const outcome = form.querySelector('.outcome');
  outcome.className = 'outcome';
  outcome.textContent = 'Sending…';
  form.querySelector('.answer').hidden = true;
  const values = { ...valuesOf(form), key: enteredKey() };
  const panel = await import('./panel.js').catch(() => undefined);
  if (panel) return panel.send(form, values, fillForm);
  outcome.classList.add('bad');
  outcome.textContent = 'Not sent: the server cannot be reached. Try again, or reload the page.';
  return false;
}

for (const form of document.querySelectorAll('form.panel')) {
  const button = form.querySelector('[type="submit"]');
  const retryKey = form.querySelector('.fresh') && keepFresh(form);
  // The generated page disables it: before this script, or without it, it would do nothing.
  button.disabled = false;
  form.addEventListener('submit', async (event) => {
    event.preventDefault();
    // A second click would send a second request.
    if (button.disabled) return;
    if (enteredKey() === '') {
      sayOfKey('Enter a key first.');
      key.focus();
      return;
    }
    if (!form.reportValidity()) return;
    const hadFocus = document.activeElement === button;
    button.disabled = true;
    const ended = retryKey?.sent();
    try {
      const isDone = await sendFrom(form);
      ended?.(isDone);
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

// They are open on a wide screen, where style shows them so from the first paint on.
if (matchMedia('(width >= 60rem)').matches) for (const panel of document.querySelectorAll('.try')) panel.open = true;
document.documentElement.classList.add('ready');
