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

function showResponse(answer, response, text) {
  const [body, headers] = answer.querySelectorAll('pre');
  const box = body.parentElement;
  body.textContent = indent(text);
  box.hidden = text === '';
  // A long response can be scrolled with the keyboard only if it is focusable.
  box.tabIndex = 0;
  headers.textContent = [...response.headers].map(([name, value]) => `${name}: ${value}`).join('\n');
  answer.hidden = false;
}

/** Sends `values`. Returns whether the next request is another one: this one was done, or the server knows its Idempotency-Key (422). */
export async function send(form, values) {
  const [outcome, answer] = ['.outcome', '.answer'].map((name) => form.querySelector(name));
  let status = 0;
  try {
    const { response, text } = await exchange(requestOf(form.dataset.method, values));
    status = response.status;
    showResponse(answer, response, text);
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
