/** Sends a request from a panel of the reference page, and shows the response. It is loaded with the first request. */

/** What the page cannot send. Its message is for the reader. */
class NotSent extends Error {}

/** Rejects what a header cannot have: the browser's own message would name bytes. */
function headerValue(name, value) {
  if (/^[\x20-\x7e]*$/.test(value)) return value;
  throw new NotSent(`Not sent: ${name} has a character other than ASCII letters, digits and punctuation.`);
}

function requestOf(method, { url, headers: given, body, key }) {
  const headers = new Headers();
  for (const [name, value] of Object.entries(given)) headers.set(name, headerValue(name, value));
  if (key) headers.set('Authorization', `Bearer ${headerValue('the API key', key)}`);
  if (body !== undefined) headers.set('Content-Type', 'application/json');
  return new Request(url, {
    method,
    headers,
    body,
    cache: 'no-store',
    credentials: 'omit',
    signal: AbortSignal.timeout(60_000),
  });
}

/** The response and its text. fetch does not say why it fails: these messages do not guess. */
async function exchange(request) {
  let response;
  try {
    response = await fetch(request);
    return { response, text: await response.text() };
  } catch {
    if (!navigator.onLine) throw new NotSent('No response: this device is offline.');
    if (response) throw new NotSent('No response: the connection ended before all of it had arrived.');
    throw new NotSent('No response: the server cannot be reached. The request may have arrived.');
  }
}

/** The same JSON, indented, with every digit. Any other text unchanged. */
function indent(text) {
  try {
    const keep = (_, value, { source }) => (typeof value === 'number' ? JSON.rawJSON(source) : value);
    return JSON.stringify(JSON.parse(text, keep), null, 2);
  } catch {
    return text;
  }
}

/** The parts of JSON that have a color in the samples. */
const parts = /("(?:[^"\\]|\\.)*")(\s*:)?|-?\d[\d.eE+-]*|true|false|null/g;

/** Shows JSON in the colors of the samples. */
function paint(code, json) {
  let end = 0;
  code.replaceChildren();
  for (const { 0: found, 1: string, 2: colon, index } of json.matchAll(parts)) {
    const span = document.createElement('span');
    span.className = colon !== undefined ? 'keyword' : string ? 'string' : 'constant';
    span.textContent = string ?? found;
    code.append(json.slice(end, index), span, colon ?? '');
    end = index + found.length;
  }
  code.append(json.slice(end));
}

/** The form of another operation, with the values of its path, if the URL is one of that. */
function formOf(url) {
  for (const form of document.querySelectorAll('form.panel[data-method="GET"]')) {
    const names = [];
    const pattern = form.dataset.path.replace(/\{(\w+)\}/g, (_, name) => {
      names.push(name);
      return '([^/]+)';
    });
    const found = new RegExp(`${pattern}$`).exec(url);
    if (found && names.length > 0)
      return { form, values: Object.fromEntries(names.map((name, at) => [name, found[at + 1]])) };
  }
  return undefined;
}

/** What to do next with a response: the next page, or the animal that was added. */
function nextOf(form, headers) {
  const next = /\?([^>]*)>[^<]*;\s*rel="?next\b/.exec(headers.get('link') ?? '')?.[1];
  if (next && form.elements.cursor)
    return { label: 'Next page', form, values: Object.fromEntries(new URLSearchParams(next)) };
  const added = headers.get('location');
  const found = added ? formOf(added) : undefined;
  return found && { label: `${found.form.dataset.title} ${Object.values(found.values)}`, ...found };
}

function showNext(place, form, headers, fillForm) {
  place.replaceChildren();
  const next = nextOf(form, headers);
  if (!next) return;
  const button = document.createElement('button');
  button.type = 'button';
  button.className = 'quiet';
  button.textContent = next.label;
  button.addEventListener('click', () => {
    fillForm(next.form, next.values);
    next.form.closest('details').open = true;
    next.form.requestSubmit();
    const send = next.form.querySelector('[type="submit"]');
    if (next.form !== form) send.scrollIntoView({ block: 'center' });
  });
  place.append(button);
}

function showResponse(answer, { headers }, text, ms) {
  const [body, fields] = answer.querySelectorAll('pre');
  const [type, id] = ['content-type', 'x-request-id'].map((name) => headers.get(name));
  // A proxy may answer with a page, and without an id.
  if (type === 'application/json') paint(body.firstElementChild, indent(text));
  else body.firstElementChild.textContent = text;
  body.closest('.code').hidden = text === '';
  // A long response can be scrolled with the keyboard only if it is focusable.
  body.parentElement.tabIndex = 0;
  fields.textContent = [...headers].map(([name, value]) => `${name}: ${value}`).join('\n');
  answer.querySelector('.facts').textContent = id ? `${ms} ms, request id ${id}` : `${ms} ms`;
  answer.hidden = false;
}

/** Sends `values`. `fillForm`: writes values into the fields of a form. Returns whether the next request is another one: this one was done, or the server knows its Idempotency-Key (422). */
export async function send(form, values, fillForm) {
  const [outcome, answer] = ['.outcome', '.answer'].map((name) => form.querySelector(name));
  let status = 0;
  try {
    const request = requestOf(form.dataset.method, values);
    const start = performance.now();
    const { response, text } = await exchange(request);
    status = response.status;
    showResponse(answer, response, text, Math.round(performance.now() - start));
    showNext(answer.querySelector('.next'), form, response.headers, fillForm);
    outcome.textContent = `${status} ${response.statusText}`;
  } catch (error) {
    if (!(error instanceof NotSent)) throw error;
    outcome.textContent = error.message;
  }
  outcome.classList.add(status > 0 && status < 400 ? 'good' : 'bad');
  // On a phone the response would be below the edge of the screen.
  (answer.hidden ? outcome : answer).scrollIntoView({ block: 'nearest' });
  return (status > 0 && status < 400) || status === 422;
}
