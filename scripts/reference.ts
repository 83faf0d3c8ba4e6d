/** Makes the reference pages from the OpenAPI documents and the templates in src/pages/reference/. */
import { readFileSync } from 'node:fs';
import { Eta } from 'eta';
import { describeKeys, documents, type Introduction, limitTable } from './openapi/introduction.ts';
import { type Document, parseDocument, resolve, type Schema, serverOf } from './reference/document.ts';
import { createTell, createTypes, fieldsOf, modelId } from './reference/fields.ts';
import { codesOf, type Group, modelsOf, operationsOf, operationView, responseHeaders } from './reference/operations.ts';
import { toHtml, toInlineHtml } from './reference/text.ts';

interface Page {
  /** The first part of the ids in the page. */
  slug: string;
  source: keyof typeof documents;
  /** Paths that are relative to the page. `{{quickstart}}`: the server fills it in. */
  root: string;
  base: string;
}

/** The pages, by the names of their files in src/pages/reference/. */
const pages = {
  'animal-store.html': { slug: 'animal-store', source: 'openapi.yaml', root: '', base: 'v1' },
  'quickstart.html': {
    slug: 'messages-quickstart',
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
  if (common.size === 0) return [{ title: '', rows: shown }];
  const [every, some] = [true, false].map((is) => shown.filter(({ code }) => common.has(code) === is));
  return [
    { title: 'Of every operation', rows: every },
    { title: 'Of some requests', rows: some },
  ];
}

/** The sections on requests. */
const requestsOf = ({ general, requests, limits, numbers }: Introduction) =>
  [
    { title: '', text: `${general}\n\n${requests}` },
    { title: 'Limits', text: limitTable(limits) },
    ...(numbers ? [{ title: 'Numbers', text: numbers }] : []),
  ].map(({ title, text }) => ({ title, text: toHtml(text) }));

/** Makes one page from a document in YAML. Throws if an operation has no entry, or a reference leads nowhere. */
export function renderPage(name: PageName, yaml = read(pages[name].source)): string {
  const { slug, root, base, source }: Page = pages[name];
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
    root,
    base,
    server,
    title,
    lead: toHtml([introduction.lead, introduction.actions].join('\n\n')),
    requests: requestsOf(introduction),
    aboutErrors: toHtml(introduction.errors.text),
    errors: groupErrors(introduction.errors, common),
    keys: toHtml(describeKeys(operations.map(({ operationId, scopes: [scope] }) => ({ operationId, scope }))).form),
    groups,
    first: operations.find((operation) => operation.canTry && !operation.body),
    call: operations[0],
    headers: [
      { title: 'Of most responses', list: headers.common },
      { title: 'Of some responses', list: headers.others },
    ].map(({ title, list }) => ({
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
  const eta = new Eta();
  for (const template of ['page', 'operation', 'fields', 'code', 'panel'])
    eta.loadTemplate(`@${template}`, read(`src/pages/reference/${template}.eta`));
  return eta.render('@page', view);
}

export const pageNames = Object.keys(pages) as PageName[];
