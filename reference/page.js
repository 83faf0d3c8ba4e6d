/** Shows the documents that the page links to, and what they say that the renderer does not know by itself. */

const methods = ['get', 'put', 'post', 'delete', 'options', 'head', 'patch', 'trace'];
/** Languages and libraries that get no samples: curl, JavaScript and Python are enough to choose from. */
const hiddenClients = [
  ...['c', 'clojure', 'csharp', 'dart', 'fsharp', 'go', 'http', 'java', 'julia', 'kotlin', 'node', 'objc', 'ocaml'],
  ...['php', 'powershell', 'r', 'ruby', 'rust', 'swift', 'shell/httpie', 'shell/wget', 'js/axios', 'js/jquery'],
  ...['js/ofetch', 'js/xhr', 'python/aiohttp', 'python/httpx_sync', 'python/httpx_async'],
];
const colors = { experimental: '#b45309', beta: '#1d4ed8', removed: '#b91c1c' };

function badges({ 'x-stability': stability, 'x-deprecated-sunset': sunset }) {
  const all = [];
  if (stability) all.push({ name: stability, color: colors[stability] });
  if (sunset) all.push({ name: `Removed on ${sunset}`, color: colors.removed });
  return all;
}

/** What may be left out is left out, until it is ticked: an Idempotency-Key of everybody's would be refused from the second body on. */
function leaveOut(parameter) {
  if (parameter.required) return;
  const value = parameter.example ?? parameter.schema?.default ?? '';
  delete parameter.example;
  parameter.examples = { default: { value, 'x-disabled': true } };
}

/** Loads a document as the renderer takes it, and gathers the addresses of the operations that are not to be tried. */
async function load({ href, dataset }, untried) {
  const content = await (await fetch(href)).json();
  // Requests go to the server that the page came from, and nowhere else.
  content.servers = [{ url: new URL(dataset.server, location.href).href, description: 'This server' }];
  for (const item of Object.values(content.paths)) {
    for (const operation of methods.map((method) => item[method]).filter(Boolean)) {
      operation['x-badges'] = badges(operation);
      operation.parameters?.forEach(leaveOut);
      if (operation['x-hideTryItPanel']) untried.push(operation.operationId);
    }
  }
  return { title: content.info.title, slug: dataset.slug, content };
}

const untried = [];
const links = document.querySelectorAll('link[rel="service-desc"]');
const sources = await Promise.all([...links].map((link) => load(link, untried)));

const [{ content: first }, ...others] = sources;
const also = others.map(({ title, slug }) => `[${title}](#${slug})`).join(', ');
if (also)
  first.info.description = first.info.description.replace('\n\n', `\n\nBeside it, and no part of it: ${also}.\n\n`);

const sheet = new CSSStyleSheet();
sheet.replaceSync(untried.map((id) => `[id$="/${id}"] .show-api-client-button { display: none }`).join('\n'));
document.adoptedStyleSheets.push(sheet);

// The renderer follows a link within a document; to another document it comes by loading the page.
const documentOf = (address) => new URL(address).hash.split('/')[0];
addEventListener('hashchange', ({ oldURL, newURL }) => {
  const next = documentOf(newURL);
  if (next !== documentOf(oldURL) && sources.some(({ slug }) => next === `#${slug}`)) location.reload();
});

Scalar.createApiReference('#reference', {
  sources,
  generateOperationSlug: ({ operationId }) => operationId,
  defaultHttpClient: { targetKey: 'shell', clientKey: 'curl' },
  hiddenClients,
  defaultOpenAllTags: true,
  // Nothing is asked of, sent to, or kept for anybody else.
  withDefaultFonts: false,
  telemetry: false,
  proxyUrl: '',
  persistAuth: false,
  agent: { disabled: true },
  mcp: { disabled: true },
  showDeveloperTools: 'never',
  hideClientButton: true,
});

/** What the renderer leaves out of its ARIA attributes (WCAG 2.2, 1.3.1, 2.1.1 and 4.1.2): where, and how it is mended. */
const mends = {
  '.scalar-code-copy:not([aria-label]), [role="dialog"] .group\\/copy-button:not([aria-label])': (button) => {
    button.ariaLabel = 'Copy';
  },
  // What has been chosen is its name from then on.
  '[role="dialog"] button[aria-haspopup="menu"]': (button) => {
    button.ariaLabel = button.textContent.trim() ? null : 'Choose a value';
  },
  // It is told of before it is there.
  '[role="dialog"] .group\\/copy-button[aria-controls]': (button) => button.removeAttribute('aria-controls'),
  '[role="dialog"] button[role="none"]': (button) => button.removeAttribute('role'),
  // No list of values belongs to it.
  '[role="dialog"] [role="combobox"]:not([aria-expanded])': (field) => {
    field.role = 'textbox';
  },
  '.cm-content[contenteditable="true"]:not([aria-label])': (editor) => {
    editor.ariaLabel = 'Request body';
  },
  '.cm-content[contenteditable="false"]:not([aria-label])': (viewer) => {
    viewer.ariaLabel = 'Response body';
    // A text that nobody writes in is scrolled by keys only where it takes the focus.
    viewer.closest('.cm-scroller').tabIndex = 0;
  },
};
new MutationObserver(() => {
  for (const [selector, mend] of Object.entries(mends)) document.querySelectorAll(selector).forEach(mend);
}).observe(document.body, { childList: true, characterData: true, subtree: true });
