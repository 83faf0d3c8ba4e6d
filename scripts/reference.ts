/** Makes the reference pages from the OpenAPI documents and the templates in src/pages/reference/. */
import { readFileSync } from 'node:fs';
import { Eta } from 'eta';
import { describeKeys, documents, type Introduction, limitTable } from './openapi/introduction.ts';
import { type Document, parseDocument, resolve, type Schema, serverOf } from './reference/document.ts';
import { createTell, createTypes, fieldsOf, modelId } from './reference/fields.ts';
import { codesOf, type Group, modelsOf, operationsOf, operationView, responseHeaders } from './reference/operations.ts';
import { toHtml, toInlineHtml, toLinkedHtml } from './reference/text.ts';

interface Page {
  /** Its name among the links of the header. */
  page: string;
  /** The first part of the ids in the page. */
  slug: string;
  source: keyof typeof documents;
  /** Paths that are relative to the page. `{{quickstart}}`: the server fills it in. */
  root: string;
  base: string;
}

/** The pages, by the names of their files in src/pages/reference/. */
const pages = {
  'animal-store.html': { slug: 'animal-store', page: 'reference', source: 'openapi.yaml', root: '', base: 'v1' },
  'quickstart.html': {
    slug: 'messages-quickstart',
    page: 'quickstart',
    source: 'openapi.quickstart.yaml',
    root: '../',
    base: '../{{quickstart}}',
  },
} satisfies Record<string, Page>;
type PageName = keyof typeof pages;

const at = (name: string) => new URL(`../${name}`, import.meta.url);
const read = (name: string) => readFileSync(at(name), 'utf8');

function groupsOf(
  document: Document,
  toView: (found: ReturnType<typeof operationsOf>[number]) => Group['operations'][number],
): Group[] {
  const found = operationsOf(document);
  return document.tags
    .map(({ name, description }) => ({
      name,
      text: toHtml(description),
      operations: found.filter(({ operation }) => operation.tags?.[0] === name).map(toView),
    }))
    .filter(({ operations }) => operations.length > 0);
}

/** The table of errors; two tables if there are errors that every operation can return. */
function groupErrors({ rows }: Introduction['errors'], common: Set<string>) {
  const shown = rows.map((row) => ({ ...row, message: toInlineHtml(row.message) }));
  if (common.size === 0) return [{ id: '', title: '', rows: shown }];
  const [every, some] = [true, false].map((is) => shown.filter(({ code }) => common.has(code) === is));
  return [
    { id: 'errors/every', title: 'Of every operation', rows: every },
    { id: 'errors/some', title: 'Of some requests', rows: some },
  ];
}

/** The sections on requests: what few readers need comes last. */
const requestsOf = ({ general, requests, limits, numbers }: Introduction, keys: string) =>
  [
    { id: '', title: '', text: general },
    { id: 'keys', title: 'API keys', text: keys },
    ...(numbers ? [{ id: 'numbers', title: 'Numbers', text: numbers }] : []),
    { id: 'limits', title: 'Limits', text: limitTable(limits) },
    { id: 'methods', title: 'Methods, paths and origins', text: requests },
  ].map((section) => ({ ...section, text: toHtml(section.text) }));

/** Makes one page from a document in YAML. Throws if an operation has no entry, or a reference leads nowhere. */
export function renderPage(name: PageName, yaml = read(pages[name].source)): string {
  const { slug, page, root, base, source }: Page = pages[name];
  const document = parseDocument(yaml);
  const { title } = document.info;
  const server = serverOf(document);
  const names = modelsOf(document);
  const describe = createTypes(document, slug, new Set(names));
  const { all, common } = codesOf(document);
  const introduction = documents[source].introduce(all);
  const headers = responseHeaders(document);
  const context = {
    document,
    slug,
    server,
    describe,
    tell: createTell(),
    commonHeaders: new Set(headers.common.map(([header]) => header)),
    commonErrors: common,
  };
  const groups = groupsOf(document, (found) => operationView(context, found));
  const operations = groups.flatMap((group) => group.operations);
  if (operations.length !== operationsOf(document).length)
    throw new Error('An operation has a tag that is not declared.');
  const view = {
    slug,
    page,
    root,
    base,
    description: base === 'v1' ? 'openapi' : `${base}/openapi`,
    server,
    title,
    lead: toHtml([introduction.lead, introduction.actions].join('\n\n')),
    requests: requestsOf(
      introduction,
      describeKeys(operations.map(({ operationId, scopes: [scope] }) => ({ operationId, scope }))).form,
    ),
    aboutErrors: toHtml(introduction.errors.text),
    errors: groupErrors(introduction.errors, common),
    groups,
    first: operations.find((operation) => operation.canTry && !operation.body),
    call: operations[0],
    headers: [
      { id: 'headers/most', title: 'Of most responses', list: headers.common },
      { id: 'headers/some', title: 'Of some responses', list: headers.others },
    ].map(({ id, title, list }) => ({
      id,
      title,
      list: list.map(([header, part]) => ({ name: header, text: toInlineHtml(part.description) })),
    })),
    models: names.map((model) => {
      const schema = { $ref: `#/components/schemas/${model}` };
      const id = modelId(slug, model);
      const { description: words } = resolve<Schema>(document, schema);
      return {
        name: model,
        id,
        text: toInlineHtml(words),
        fields: fieldsOf(context, schema, { id, title: model }),
      };
    }),
  };
  return render('page', view);
}

const templates = [
  'page',
  'changelog',
  'header',
  'heading',
  'operation',
  'fields',
  'samples',
  'code',
  'panel',
] as const;

function render(template: (typeof templates)[number], view: object): string {
  const eta = new Eta();
  for (const name of templates) eta.loadTemplate(`@${name}`, read(`src/pages/reference/${name}.eta`));
  // Indentation that no reader sees is a twentieth of the compressed page. A preformatted text keeps its own.
  return eta
    .render(`@${template}`, view)
    .replace(/<(pre|textarea)[\s\S]*?<\/\1>|\n\s+/g, (found) => (found.startsWith('<') ? found : '\n'));
}

/** Makes the page of the changelog. */
export const renderChangelog = () =>
  render('changelog', {
    page: 'changelog',
    root: '../',
    description: '../openapi',
    text: toLinkedHtml(read('CHANGELOG.md')),
  });

export const pageNames = Object.keys(pages) as PageName[];
