/** The key, and what the panels of the reference page would send. The text of the page needs no script. */

// Requests go only to the server that served the page.
const base = new URL(document.body.dataset.server ?? '', location.href).href;
/** The fields of the key, one in each form: they have one value. */
const keys = [...document.querySelectorAll('.key')];

/** The key in the fields; also if `Bearer` or the whole header was pasted with it. */
const enteredKey = () => keys[0].value.trim().replace(/^(?:authorization\s*:\s*)?bearer\s+/i, '');

function setKey(value) {
  for (const field of keys) {
    // The cursor of the field that has it already stays.
    if (field.value !== value) field.value = value;
    if (value) sayOfKey(field, '');
  }
  for (const button of document.querySelectorAll('.with-key')) button.hidden = enteredKey() === '';
}

/** Shows a message at a field of the key; none if it is empty. */
function sayOfKey(field, message) {
  field.closest('.field').querySelector('.fault').textContent = message;
  if (message) field.setAttribute('aria-invalid', 'true');
  else field.removeAttribute('aria-invalid');
}

for (const field of keys) {
  const show = field.parentElement.querySelector('.show');
  show.addEventListener('click', () => {
    show.ariaPressed = String(field.classList.toggle('shown'));
  });
  field.addEventListener('input', () => setKey(field.value));
}
addEventListener('pageshow', () => keys[0] && setKey(keys[0].value));

// The page of a new key leads here, and hands it over: account.js.
if (keys[0] && location.hash.startsWith('#new-key-')) {
  const channel = new BroadcastChannel(location.hash);
  channel.addEventListener('message', ({ data }) => {
    // Another tab may ask, too.
    if (!data) return;
    channel.close();
    setKey(data);
  });
  channel.postMessage('');
  // A reload asks for nothing.
  history.replaceState(null, '', '#start');
}

/** Names who is signed in, as the last account page noted in this browser (account.js): no request. A session ends an hour after its last page. */
function nameMember() {
  const [at, name] = (dataset.member ?? '').split(/ (.*)/);
  if (Date.now() - at < 3_600_000) member.querySelector('strong').textContent = name;
  else remember('member', '');
}

/** Reads an account page. Undefined if there is none: a page without a session leads elsewhere. */
async function readAccount(url, init) {
  const response = await fetch(url, { redirect: 'manual', ...init }).catch(() => undefined);
  if (response?.type === 'opaqueredirect') remember('member', '');
  return response?.ok ? new DOMParser().parseFromString(await response.text(), 'text/html') : undefined;
}

/** Makes a key with the form of the account pages. No address has the key. */
async function makeKey() {
  const form = (await readAccount(member.dataset.account))?.querySelector('#make form');
  if (!form) return undefined;
  const body = new URLSearchParams(new FormData(form));
  body.set('name', `reference, ${new Date().toISOString().slice(0, 19)}`);
  body.set('expires', '30d');
  return (await readAccount(form.action, { method: 'POST', body }))?.querySelector('#key')?.textContent;
}

const member = document.querySelector('.member');
if (member) {
  nameMember();
  addEventListener('pageshow', nameMember);
  member.querySelector('button').addEventListener('click', async ({ target }) => {
    target.disabled = true;
    const secret = await makeKey();
    const failure = dataset.member ? 'No key was made. See API keys.' : 'Your session has ended.';
    member.lastElementChild.textContent = secret ? 'It is entered, and expires after 30 days.' : failure;
    target.disabled = Boolean(secret);
    if (!secret) return;
    setKey(secret);
    // The next step.
    member.closest('ol').querySelector('form').requestSubmit();
  });
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
      const field = form.querySelector('.key');
      sayOfKey(field, 'Enter a key first.');
      field.focus();
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
