/** Makes collections of requests for Postman and Bruno from the document of the animal store. */
import { examplesOf, parseDocument, serverOf, toJson } from '../reference/document.ts';
import { operationsOf } from '../reference/operations.ts';

const about = 'Set the variable apiKey to your API key, and baseUrl if it is not the address of your service.';
const token = '{{apiKey}}';

/** What both collections have of a document in YAML: the operations that can be tried, and the variables. */
function requestsOf(yaml: string) {
  const document = parseDocument(yaml);
  const found = operationsOf(document).filter(({ operation }) => !operation['x-hideTryItPanel']);
  return {
    name: document.info.title,
    variables: Object.entries({ baseUrl: serverOf(document), apiKey: '' }),
    requests: found.map(({ method, path, operation: { summary, description, parameters = [], requestBody } }) => {
      const body = requestBody?.content?.['application/json'];
      const at = path.replace(/\{(\w+)\}/g, ':$1');
      return {
        name: summary,
        description,
        method,
        path: at,
        url: `{{baseUrl}}${at}`,
        body: body && toJson(examplesOf(body)[0]?.value, 2),
        /** The parameters of a place. As in the reference, a request sends those that are required. `name`: the tool's word for it. */
        parametersIn: (place: string, name: 'key' | 'name') =>
          parameters
            .filter((parameter) => parameter.in === place)
            .map((parameter) => ({
              [name]: parameter.name,
              description: parameter.description,
              value: String(examplesOf(parameter)[0]?.value ?? parameter.schema.default ?? ''),
              ...(!parameter.required && { disabled: true }),
            })),
      };
    }),
  };
}

/** A collection of Postman's format 2.1. */
export function toPostman(yaml: string) {
  const { name, requests, variables } = requestsOf(yaml);
  return {
    info: { name, description: about, schema: 'https://schema.getpostman.com/json/collection/v2.1.0/collection.json' },
    auth: { type: 'bearer', bearer: [{ key: 'token', value: token, type: 'string' }] },
    variable: variables.map(([key, value]) => ({ key, value })),
    item: requests.map(({ name, description, method, path, url, body, parametersIn }) => ({
      name,
      request: {
        description,
        method,
        url: {
          raw: url,
          host: ['{{baseUrl}}'],
          path: path.slice(1).split('/'),
          query: parametersIn('query', 'key'),
          variable: parametersIn('path', 'key'),
        },
        header: parametersIn('header', 'key'),
        ...(body && { body: { mode: 'raw', raw: body, options: { raw: { language: 'json' } } } }),
      },
    })),
  };
}

/** A collection of Bruno, as OpenCollection 1.0.0 in one file. */
export function toBruno(yaml: string) {
  const { name, requests, variables } = requestsOf(yaml);
  return {
    opencollection: '1.0.0',
    info: { name, version: '1' },
    bundled: true,
    docs: about,
    request: { auth: { type: 'bearer', token }, variables: variables.map(([name, value]) => ({ name, value })) },
    items: requests.map(({ name, description, method, url, body, parametersIn }, at) => ({
      info: { name, type: 'http', seq: at + 1 },
      http: {
        method,
        url,
        auth: 'inherit',
        params: ['path', 'query'].flatMap((type) => parametersIn(type, 'name').map((each) => ({ ...each, type }))),
        headers: parametersIn('header', 'name'),
        ...(body && { body: { type: 'json', data: body } }),
      },
      docs: description,
    })),
  };
}
