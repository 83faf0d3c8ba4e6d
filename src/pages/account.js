/** Adds copy buttons, shows passwords, keeps a form from being sent twice, and a new key from being lost. The pages work without it. */

// A reload or bookmark would show a notice again.
if (location.search) history.replaceState(null, '', location.href.replace(/[?&]done=[^#]*/, ''));

// Tells the reference who is signed in, without a request. It is no secret, and no proof.
const who = document.querySelector('.who')?.textContent;
remember('member', who ? `${Date.now()} ${who}` : '');

// The form whose answer the browser waits for.
let sent;
const sendAgain = () => {
  sent = undefined;
};
// The browser's Back shows the page as it was left.
addEventListener('pageshow', sendAgain);
// The person pressed Stop, or stayed to copy a key.
window.navigation?.addEventListener('navigateerror', sendAgain);

// A person who has neither copied the new key nor confirmed that it is stored would lose it.
let lost = document.querySelector('#key') !== null;
const keep = () => {
  lost = false;
};
addEventListener('copy', keep);
document.querySelector('#stored')?.addEventListener('click', keep);
addEventListener('beforeunload', (event) => {
  if (!lost) return;
  event.preventDefault();
  sendAgain();
});

for (const box of document.querySelectorAll('.copy')) {
  const code = box.querySelector('code');
  const button = document.createElement('button');
  button.type = 'button';
  button.textContent = code.id === 'key' ? 'Copy key' : 'Copy command';
  // The page has one main button.
  if (code.id !== 'key') button.className = 'quiet';
  copyOnClick(button, async () => {
    const copied = await copy(code);
    if (copied) keep();
    return copied;
  });
  box.append(button);
}

// The reference, in another tab, asks for the key: in its address, the history of the browser would keep it. No other site can ask.
const tryIt = document.querySelector('#try');
if (tryIt) {
  const { textContent: key } = document.querySelector('#key');
  const channel = new BroadcastChannel(tryIt.hash);
  channel.addEventListener('message', () => channel.postMessage(key));
}

// Back must not show the key again: the browser may have kept the page.
addEventListener('pagehide', () => {
  for (const code of document.querySelectorAll('.copy code')) code.textContent = 'It was shown once.';
});
// A page that the browser kept lacks the keys that were made since, and shows no new key.
addEventListener('pageshow', ({ persisted }) => {
  if (persisted && document.querySelector('#make, #key'))
    location.replace(document.querySelector('header [href$="/account"]').href);
});

for (const form of document.forms) {
  const passwords = form.querySelectorAll('[type="password"]');
  const box = form.querySelector('.show');
  const show = (shown) => {
    if (box) box.checked = shown;
    for (const field of passwords) field.type = shown ? 'text' : 'password';
  };
  box?.addEventListener('change', () => show(box.checked));

  form.addEventListener('submit', (event) => {
    // A second click on "Make key" would make a second key.
    if (sent === form) event.preventDefault();
    sent = form;
    // The browser remembers what is typed into a text field.
    show(false);
  });
}

for (const details of document.querySelectorAll('main details')) closeOnEscape(details);

// A menu closes when something else is clicked.
addEventListener('click', ({ target }) => {
  for (const menu of document.querySelectorAll('.more[open]')) if (!menu.contains(target)) menu.open = false;
});
