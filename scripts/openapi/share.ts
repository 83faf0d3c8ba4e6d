/** Moves the parts of a document that occur more than once to its components. */
import { type Components, capitalize, type Json, ref } from './components.ts';
import { sharedStatuses, withoutBody } from './operations.ts';
import { meanings } from './words.ts';

interface Use {
  name: string;
  /** The operation or component that it is part of. */
  owner: string;
  holder: Json;
  key: string;
}

/** Moves values with the same name that occur more than once to components. If another value has that name, the owner's is added. */
function share(section: keyof Components, uses: Use[], components: Components): void {
  const groups = Map.groupBy(
    uses.filter(({ holder, key }) => !Object.hasOwn(holder[key] as Json, '$ref')),
    ({ name, holder, key }) => name + JSON.stringify(holder[key]),
  );
  for (const [first, ...others] of groups.values()) {
    if (first === undefined || others.length === 0) continue;
    const { name, owner } = first;
    const free = Object.hasOwn(components[section], name) ? name + capitalize(owner) : name;
    components[section][free] = first.holder[first.key];
    for (const { holder, key } of [first, ...others]) holder[key] = ref(section, free);
  }
}

const usesIn = (holder: unknown, owner: unknown, nameOf: (part: Json, key: string) => string): Use[] =>
  Object.entries((holder ?? {}) as Record<string, Json>).map(([key, part]) => {
    return { name: nameOf(part, key), owner: String(owner), holder: holder as Json, key };
  });

/** Moves repeated parameters, responses and examples of `operations`. Responses first: their examples then occur once. */
export function shareAll(operations: Json[], components: Components): void {
  const responseName =
    ({ deprecated }: Json) =>
    (response: Json, status: string) => {
      if (response.description === withoutBody.description) return 'ErrorWithoutBody';
      const own = deprecated && !sharedStatuses.has(Number(status));
      return `${meanings[Number(status)]?.name ?? status}${own ? 'Deprecated' : ''}`;
    };
  const parameters = operations.flatMap(({ parameters, operationId }) =>
    usesIn(parameters, operationId, ({ name }) => String(name)),
  );
  share('parameters', parameters, components);
  const responses = operations.flatMap((operation) =>
    usesIn(operation.responses, operation.operationId, responseName(operation)),
  );
  share('responses', responses, components);
  const bodies: [owner: string, body: unknown][] = [
    ...responses.map(({ owner, holder, key }): [string, unknown] => [owner, holder[key]]),
    ...Object.entries(components.responses),
  ];
  const examples = bodies.flatMap(([owner, body]) => {
    const { content } = body as { content?: Record<string, { examples?: Json }> };
    return usesIn(content?.['application/json']?.examples, owner, (_, code) => code);
  });
  share('examples', examples, components);
}
