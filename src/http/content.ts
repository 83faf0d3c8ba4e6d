/** Request bodies: JSON in UTF-8, or 415. */
import { isUtf8 } from 'node:buffer';
import type { FastifyInstance } from 'fastify';
import { Failure } from '../errors.ts';
import { parseJson } from '../int64.ts';

const json = /^application\/json[ \t]*(?:;|$)/i;
const charset = /;[ \t]*charset[ \t]*=[ \t]*"?([^\s;"]*)/i;

export function installContent(app: FastifyInstance): void {
  app.removeAllContentTypeParsers();

  app.addHook('preParsing', (request, reply, _payload, done) => {
    const { 'content-type': type, 'content-encoding': coding, expect } = request.headers;
    if (type !== undefined && !(json.test(type) && /^utf-8$/i.test(charset.exec(type)?.[1] ?? 'utf-8'))) {
      return done(new Failure('unsupported_media_type'));
    }
    if (coding !== undefined && !/^identity$/i.test(coding)) return done(new Failure('unsupported_media_type'));
    if (expect !== undefined) reply.raw.writeContinue();
    done();
  });

  app.addContentTypeParser('application/json', { parseAs: 'buffer' }, (_request, body, done) => {
    const bytes = body as Buffer;
    // An empty body is a missing one; validation says so.
    if (bytes.length === 0) return done(null, undefined);
    if (!isUtf8(bytes)) return done(new Failure('invalid_json', 'The body is not valid UTF-8.'));
    try {
      done(null, parseJson(bytes.toString()));
    } catch (error) {
      done(new Failure('invalid_json', `The body is not valid JSON: ${(error as Error).message}.`));
    }
  });
}
