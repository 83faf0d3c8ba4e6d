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

const [double, single] = [quoteDouble, quoteSingle];
const quotes = { curl: quoteForShell, Go: double, Java: double, 'C#': double, PHP: single, Ruby: single };

/** Writes a value into its places in the samples. */
function fill(samples, name, value) {
  for (const slot of samples.querySelectorAll(`[data-slot="${name}"]`)) {
    const quote = quotes[slot.closest('[data-language]').dataset.language] ?? quoteForProgram;
    const { before = '' } = slot.dataset;
    const quoted = quote(before + value);
    const at = before && value ? quoted.indexOf(value) : -1;
    slot.textContent = quoted;
    if (at < 0) continue;
    // Stays whole at the end of a line.
    const whole = document.createElement('span');
    whole.className = 'whole';
    whole.textContent = value;
    slot.replaceChildren(quoted.slice(0, at), whole, quoted.slice(at + value.length));
  }
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

for (const form of document.querySelectorAll('form.panel')) {
  fillSamples(form);
  form.addEventListener('input', () => fillSamples(form));
}

/** The text of the sample that is open, with the key in its place if it is given. */
function textOf(sample, secret) {
  const shown = sample.cloneNode(true);
  for (const line of shown.querySelectorAll('[hidden]')) line.remove();
  if (secret) fill(shown, 'key', secret);
  return shown.querySelector('code').textContent;
}

for (const button of document.querySelectorAll('.copy'))
  copyOnClick(button, () => {
    const sample = button.closest('.samples')?.querySelector('[open]');
    const code = (sample ?? button.parentElement).querySelector('code');
    const secret = button.matches('.with-key') ? enteredKey() : '';
    return copy(code, sample ? textOf(sample, secret) : code.textContent);
  });

const samples = document.querySelectorAll('.samples > details');

function showLanguage(language) {
  for (const sample of samples) sample.open = sample.dataset.language === language;
}

for (const tab of document.querySelectorAll('.tabs > details')) {
  const { language } = tab.dataset;
  const summary = tab.querySelector('summary');
  summary.addEventListener('click', (event) => {
    // One tab is always open.
    event.preventDefault();
    const { top } = tab.getBoundingClientRect();
    tab.open = true;
    if (language) {
      remember('language', language);
      showLanguage(language);
    }
    // Samples above it have other heights now.
    scrollBy({ top: tab.getBoundingClientRect().top - top, behavior: 'instant' });
  });
  summary.addEventListener('keydown', ({ key }) => {
    const steps = { ArrowLeft: tab.previousElementSibling, ArrowRight: tab.nextElementSibling };
    const next = steps[key]?.querySelector('summary');
    next?.focus();
    next?.click();
  });
}

for (const choose of document.querySelectorAll('.choose'))
  choose.addEventListener('change', () => {
    for (const [at, choice] of choose.parentElement.querySelectorAll('.choice').entries())
      choice.classList.toggle('chosen', at === choose.selectedIndex);
  });

const { language } = dataset;
if ([...samples].some((sample) => sample.dataset.language === language)) showLanguage(language);
