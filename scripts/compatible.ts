/** Exits with 1 if an OpenAPI document would break clients of the last release. Optional arguments: the folders of the old and new documents. */
import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { apiCompare, breaking } from 'api-smart-diff';
import { parse } from 'yaml';
import { newestOf } from './versions.ts';

/**
 * Corrections of the documents of 1.0.0, which change no request and no response. Each pattern matches the whole line that would be printed.
 * Remove them after the next release: its documents are correct.
 */
const corrections = [
  // These responses come before the API key is accepted, and never had the headers of its rate limit.
  /remove .* › responses › (401|408|414|417|431) › headers › RateLimit-(Limit|Remaining|Reset)/,
  // These responses come before the path is read, and never had the headers of the operation.
  /remove paths › \/pets\/\{petId\} › get › responses › (408|431) › headers › (Deprecation|Sunset|Link)/,
  // A response may get more fields, as every client must expect. Requests still reject unknown ones.
  /remove .* › responses › 20[01] › content › application\/json › schema( › items)? › additionalProperties/,
  // The same rule, readable for every regular-expression engine.
  /replace .* › (name|message) › pattern from \^\[\^\\u0000\][+*]\$ to \^\[\^\\x00\][+*]\$/,
  // A response that is narrower than before surprises no client.
  /add .* › responses › \d+ › content › application\/json › schema( › .*)? › (format|maximum|maxItems|minimum|minLength|pattern)/,
  // Never sent.
  /remove paths › \/store\/orders › get › responses › 2xx/,
].map(({ source }) => new RegExp(`^${source}$`));

const root = fileURLToPath(new URL('..', import.meta.url));
const last = newestOf(readdirSync(`${root}docs/releases`));
const [base = `${root}docs/releases/${last}`, revision = root] = process.argv.slice(2);
const read = (file: string) => parse(readFileSync(file, 'utf8'));

for (const name of ['openapi.yaml', 'openapi.quickstart.yaml']) {
  const { diffs } = apiCompare(read(`${base}/${name}`), read(`${revision}/${name}`));
  for (const { type, action, path, before, after } of diffs) {
    // A component is compared where an operation uses it: only there is it known to be part of a request or of a response.
    if (type !== breaking || (path[0] === 'components' && path[1] !== 'securitySchemes')) continue;
    const change = `${action} ${path.join(' › ')}${action === 'replace' ? ` from ${before} to ${after}` : ''}`;
    if (corrections.some((correction) => correction.test(change))) continue;
    console.error(`${name}: ${change} is ${type}`);
    process.exitCode = 1;
  }
}
