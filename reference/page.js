/** Shows the OpenAPI documents that the page links to, and adds what the renderer does not support by itself. */

const methods = ['get', 'put', 'post', 'delete', 'options', 'head', 'patch', 'trace'];
/** Languages and libraries without code samples. curl, JavaScript and Python are enough. */
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

/** Disables optional parameters until they are ticked. If everyone sent the example Idempotency-Key, a second body would be rejected. */
function leaveOut(parameter) {
  if (parameter.required) return;
  const value = parameter.example ?? parameter.schema?.default ?? '';
  delete parameter.example;
  parameter.examples = { default: { value, 'x-disabled': true } };
}

/** Loads a document for the renderer, and adds the ids of operations without a try-it panel to `untried`. */
async function load({ href, dataset }, untried) {
  const content = await (await fetch(href)).json();
  // Requests go only to the server that served the page.
  const { href: server } = new URL(dataset.server, location.href);
  content.info.description = content.info.description.replaceAll('https://api.example.com/v1', server);
  content.servers = [{ url: server, description: 'This server' }];
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
  first.info.description = first.info.description.replace(
    '\n\nAll requests',
    `\n\nSee also (not part of the animal store): ${also}.$&`,
  );

const sheet = new CSSStyleSheet();
sheet.replaceSync(untried.map((id) => `[id$="/${id}"] .show-api-client-button { display: none }`).join('\n'));
document.adoptedStyleSheets.push(sheet);

// The renderer follows links within a document. A link to another document needs a page load.
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
  // The page contacts no other host and does not store the API key.
  withDefaultFonts: false,
  telemetry: false,
  proxyUrl: '',
  persistAuth: false,
  agent: { disabled: true },
  mcp: { disabled: true },
  showDeveloperTools: 'never',
  hideClientButton: true,
});

/** Fixes of the renderer's missing or wrong ARIA attributes (WCAG 2.2, 1.3.1, 2.1.1 and 4.1.2), by selector. */
const fixes = {
  '.scalar-code-copy:not([aria-label]), [role="dialog"] .group\\/copy-button:not([aria-label])': (button) => {
    button.ariaLabel = 'Copy';
  },
  // A chosen value becomes the name of the button.
  '[role="dialog"] button[aria-haspopup="menu"]': (button) => {
    button.ariaLabel = button.textContent.trim() ? null : 'Choose a value';
  },
  // The controlled element does not exist yet.
  '[role="dialog"] .group\\/copy-button[aria-controls]': (button) => button.removeAttribute('aria-controls'),
  '[role="dialog"] button[role="none"]': (button) => button.removeAttribute('role'),
  // This field has no list of values.
  '[role="dialog"] [role="combobox"]:not([aria-expanded])': (field) => {
    field.role = 'textbox';
  },
  '.cm-content[contenteditable="true"]:not([aria-label])': (editor) => {
    editor.ariaLabel = 'Request body';
  },
  '.cm-content[contenteditable="false"]:not([aria-label])': (viewer) => {
    viewer.ariaLabel = 'Response body';
    // Read-only text can be scrolled with the keyboard only if it is focusable.
    viewer.closest('.cm-scroller').tabIndex = 0;
  },
};
new MutationObserver(() => {
  for (const [selector, fix] of Object.entries(fixes)) document.querySelectorAll(selector).forEach(fix);
}).observe(document.body, { childList: true, characterData: true, subtree: true });
