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

// Buttons that are an icon alone get a name as they appear.
new MutationObserver(() => {
  for (const button of document.querySelectorAll('.scalar-code-copy:not([aria-label])')) button.ariaLabel = 'Copy';
}).observe(document.body, { childList: true, subtree: true });
