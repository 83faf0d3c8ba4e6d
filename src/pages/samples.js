/** Keeps the samples of the reference page as the panels are, in the language that the reader chose, and copies them. */

/** JSON on one line, with every digit. Any other text unchanged. */
function compact(text) {
  try {
    JSON.parse(text);
  } catch {
    return text;
  }
  return text.replace(/("(?:[^"\\]|\\.)*")|\s+/g, '$1');
}

const quoteFor = (slot) =>
  slot.closest('[data-language]').dataset.language === 'curl' ? quoteForShell : quoteForProgram;

/** Writes a value into its places in the code. */
function fill(code, name, value) {
  for (const slot of code.querySelectorAll(`[data-slot="${name}"]`))
    slot.textContent = quoteFor(slot)((slot.dataset.before ?? '') + value);
}

/** Writes what the form would send into the samples beside it. */
function fillSamples(form) {
  const samples = form.closest('section').querySelector('.samples');
  const { url, headers, body = '' } = valuesOf(form);
  fill(samples, 'url', url);
  fill(samples, 'body', compact(body));
  for (const line of samples.querySelectorAll('[data-header]')) {
    const value = headers[line.dataset.header] ?? '';
    line.hidden = value === '';
    fill(line, line.dataset.header, value);
  }
}

// Without BASE_URL the server names the address of the examples.
for (const slot of document.querySelectorAll('[data-slot="url"]'))
  slot.textContent = slot.textContent.replace(/https:\/\/api\.example\.com\/\w+/, () => base);

for (const form of document.querySelectorAll('form.panel')) {
  fillSamples(form);
  form.addEventListener('input', () => fillSamples(form));
}

/** The text of the code as it is shown, with the key in its place if it is given. */
function textOf(code, secret) {
  const shown = code.closest('details')?.cloneNode(true).querySelector('code') ?? code.cloneNode(true);
  for (const line of shown.querySelectorAll('[hidden]')) line.remove();
  if (secret) fill(shown, 'key', secret);
  return shown.textContent;
}

/** `secretOf` returns the key that replaces the placeholder. */
function listenForCopy(button, secretOf) {
  const code = button.closest('.code').querySelector('code');
  copyOnClick(button, () => copy(code, textOf(code, secretOf())));
}

for (const button of document.querySelectorAll('.copy')) listenForCopy(button, () => '');

/** The buttons that copy a sample with the key. */
const withKey = [...document.querySelectorAll('.samples .copy')].map((button) => {
  const added = button.cloneNode();
  added.ariaLabel = button.ariaLabel.replace('Copy', 'Copy with my key');
  added.textContent = 'Copy with my key';
  added.hidden = true;
  button.after(added);
  listenForCopy(added, enteredKey);
  return added;
});

function showKeyParts() {
  const has = enteredKey() !== '';
  for (const hint of document.querySelectorAll('.key-missing')) hint.hidden = has;
  for (const button of withKey) button.hidden = !has;
}
key?.addEventListener('input', showKeyParts);
addEventListener('pageshow', showKeyParts);

/** Remembers a choice. An empty value removes it. */
function remember(name, value) {
  document.documentElement.dataset[name] = value;
  try {
    if (value) localStorage[name] = value;
    else localStorage.removeItem(name);
  } catch {
    // The browser may block the storage.
  }
}

const samples = document.querySelectorAll('.samples > details');

function showLanguage(language) {
  for (const sample of samples) sample.open = sample.dataset.language === language;
}

for (const sample of samples)
  sample.querySelector('summary').addEventListener('click', (event) => {
    // One sample is always open.
    event.preventDefault();
    const { top } = sample.getBoundingClientRect();
    remember('language', sample.dataset.language);
    showLanguage(sample.dataset.language);
    // Samples above it have other heights now.
    scrollBy({ top: sample.getBoundingClientRect().top - top, behavior: 'instant' });
  });

const { language } = document.documentElement.dataset;
if ([...samples].some((sample) => sample.dataset.language === language)) showLanguage(language);
