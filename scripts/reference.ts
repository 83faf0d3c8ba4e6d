/** Makes the reference pages from the OpenAPI documents and the templates in src/pages/reference/. */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { Eta } from 'eta';
import type { ErrorCode } from '../src/core/errors.ts';
import { documents, type Introduction, keys } from './openapi/introduction.ts';
import { parseDocument, serverOf } from './reference/document.ts';
import { createTypes, fieldsOf, modelId, ownType } from './reference/fields.ts';
import {
  type Context,
  codesOf,
  modelsOf,
  operationsOf,
  operationView,
  responseHeaders,
} from './reference/operations.ts';
import { remedies } from './reference/remedies.ts';
import { idOf, toHtml, toInlineHtml, toLinkedHtml } from './reference/text.ts';

/** The pages, by the names of their files in src/pages/reference/. */
const pages = {
  'animal-store.html': {
    /** The first part of the ids in the page. */
    slug: 'animal-store',
    /** Its name among the links of the header. */
    page: 'reference',
    source: 'openapi.yaml',
    // Paths that are relative to the page. `{{quickstart}}`: the server fills it in.
    root: '',
    base: 'v1',
    description: 'openapi',
    hasGuides: true,
    more: [
      {
        id: 'changes',
        title: 'Change or delete an animal',
        text: 'No operation can update or delete one: `PUT`, `PATCH` and `DELETE` return 405. Add the animal again as it should be, and keep its new id. Lists then have both.',
      },
      {
        id: 'absent',
        title: 'Webhooks and SDKs',
        text: 'The service has neither. In place of a webhook, look for new animals at the end of the list ([Paging](#guides/paging)). In place of an SDK, copy a sample, or generate a client from the OpenAPI document.',
      },
      {
        id: 'versions',
        title: 'Versions',
        text: 'The interface has a version of its own, whose first number is in the address: `/v1`. A new release of the service may add operations, fields and codes of errors; it removes nothing that the interface has, except as announced in the [release notes](docs/changelog).',
      },
    ],
  },
  'quickstart.html': {
    slug: 'messages-quickstart',
    page: 'quickstart',
    source: 'openapi.quickstart.yaml',
    root: '../',
    base: '../{{quickstart}}',
    description: '../{{quickstart}}/openapi',
    hasGuides: false,
    more: [],
  },
} as const;
type PageName = keyof typeof pages;

const read = (name: string) => readFileSync(new URL(`../${name}`, import.meta.url), 'utf8');

/** The table of errors; two tables if there are errors that every operation can return. */
function groupErrors({ rows }: Introduction['errors'], common: ErrorCode[]) {
  const shown = rows.map((row) => ({
    ...row,
    message: toInlineHtml(row.message),
    remedy: toInlineHtml(remedies[row.code as keyof typeof remedies]),
  }));
  if (common.length === 0) return [{ id: '', title: '', rows: shown }];
  const [every, some] = [true, false].map((is) => shown.filter(({ code }) => common.includes(code) === is));
  return [
    { id: 'errors/every', title: 'Errors of all operations', rows: every },
    { id: 'errors/some', title: 'Errors of some operations', rows: some },
  ];
}

/** The guides of the animal store. */
const guidesOf = (server: string) =>
  read('src/pages/reference/guides.md')
    .replaceAll('{{server}}', server)
    .split(/^## /m)
    .slice(1)
    .map((text) => {
      const [title = '', ...lines] = text.split('\n');
      return { id: `guides/${idOf(title)}`, title, text: toHtml(lines.join('\n')) };
    });

interface Section {
  id: string;
  title: string;
  text: string;
}

/** The sections on requests: what few readers need comes last. */
const requestsOf = ({ general, requests, limits }: Introduction, keys: string, more: readonly Section[]) =>
  [
    { id: '', title: '', text: general },
    { id: 'keys', title: 'API keys', text: keys },
    { id: 'limits', title: 'Limits', text: limits },
    { id: 'methods', title: 'Methods, paths and origins', text: requests },
    ...more,
  ].map((section) => ({ ...section, text: toHtml(section.text) }));

/** Makes one page from a document in YAML. Throws if an operation has no entry, or a reference leads nowhere. */
export function renderPage(name: PageName, yaml = read(pages[name].source)): string {
  const page = pages[name];
  const { slug } = page;
  const document = parseDocument(yaml);
  const models = modelsOf(document);
  const { all, common } = codesOf(document);
  const introduction = documents[page.source].introduce(all);
  const headers = responseHeaders(document);
  const context: Context = {
    document,
    slug,
    server: serverOf(document),
    describe: createTypes(
      slug,
      models.map(([model]) => model),
    ),
    commonHeaders: headers.common.map((header) => header.name),
    commonErrors: common,
  };
  const found = operationsOf(document);
  const groups = document.tags.map((tag) => ({
    name: tag.name,
    text: toHtml(tag.description),
    operations: found
      .filter(({ operation }) => operation.tags[0] === tag.name)
      .map((operation) => operationView(context, operation)),
  }));
  const operations = groups.flatMap((group) => group.operations);
  if (operations.length !== found.length) throw new Error('An operation has a tag that is not declared.');
  return render('page', {
    ...page,
    title: document.info.title,
    version: document.info.version,
    release: (JSON.parse(read('package.json')) as { version: string }).version,
    server: context.server,
    guides: page.hasGuides ? guidesOf(context.server) : [],
    lead: toHtml([introduction.lead, introduction.actions].join('\n\n')),
    requests: requestsOf(introduction, keys.form, page.more),
    aboutErrors: toHtml(introduction.errors.text),
    errors: groupErrors(introduction.errors, common),
    groups,
    first: operations.find((operation) => operation.canTry && !operation.body),
    call: operations[0],
    headers: [
      { id: 'headers/most', title: 'Headers of most responses', list: headers.common },
      { id: 'headers/some', title: 'Headers of some responses', list: headers.others },
    ],
    models: models.map(([model, schema]) => {
      const id = modelId(slug, model);
      const fields = fieldsOf(context, schema);
      return { name: model, id, text: toInlineHtml(schema.description), type: ownType(schema), fields };
    }),
  });
}

const eta = new Eta({ views: fileURLToPath(new URL('../src/pages', import.meta.url)), cache: true });

function render(template: 'page' | 'changelog' | 'not-found', view: object): string {
  // Indentation that no reader sees is a twentieth of the compressed page. A preformatted text keeps its own.
  return eta
    .render(`reference/${template}`, view)
    .replace(/<(pre|textarea|option)[\s\S]*?<\/\1>|\n\s+/g, (found) => (found.startsWith('<') ? found : '\n'));
}

/** The releases of a changelog: what is not released yet is nothing that a reader has. */
const releasesOf = (changelog: string) =>
  changelog.replace(/^## \[Unreleased\]\n[\s\S]*?(?=^## )/m, '').replace(/^## \[(.+?)\] - (.+)$/gm, '## $1, $2');

/** HTML of a release: what is for those who call the API comes first, and what is for operators is folded. */
function releaseHtml(html: string): string {
  const [start = '', ...sections] = html.split(/(?=<h3 )/);
  const isOf = (titles: string) => (section: string) => new RegExp(`^<h3 [^>]*><a [^>]*>(?:${titles})<`).test(section);
  const isApi = isOf('For those who call the API');
  const isOperators = isOf('For those who run it|Before you upgrade');
  const folded = sections.map((section) =>
    isOperators(section)
      ? // A link in a summary would be a control within a control.
        section.replace(
          /^(<h3 [^>]*>)<a [^>]*>(.*?)<\/a>(<\/h3>)([\s\S]*)$/,
          '<details><summary>$1$2$3</summary>$4</details>\n',
        )
      : section,
  );
  const order = [isApi, (section: string) => !isApi(section) && !isOperators(section), isOperators];
  return [start, ...order.flatMap((is) => folded.filter((_, at) => is(sections[at] as string)))].join('');
}

/** Makes the page of the changelog. */
export const renderChangelog = () =>
  render('changelog', {
    page: 'changelog',
    root: '../',
    text: toLinkedHtml(releasesOf(read('CHANGELOG.md')))
      .split(/(?=<h2 )/)
      .map(releaseHtml)
      .join(''),
  });

/** Makes the page for an address that a person has mistyped. The server fills in the start of its links, because the address can be of any depth. */
export const renderNotFound = () => render('not-found', { root: '{{root}}/' });

export const pageNames = Object.keys(pages) as PageName[];
