/** Moves the parts of a document that occur more than once to its components. */
import { type Components, type Json, ref } from './components.ts';
import { meanings } from './words.ts';

interface Use {
  name: string;
  holder: Json;
  key: string;
}

/** Moves values with the same name that occur more than once to components. The second value of a name gets a number. */
function share(section: keyof Components, uses: Use[], components: Components): void {
  const groups = Map.groupBy(
    uses.filter(({ holder, key }) => !Object.hasOwn(holder[key] as Json, '$ref')),
    ({ name, holder, key }) => name + JSON.stringify(holder[key]),
  );
  for (const [first, ...others] of groups.values()) {
    if (first === undefined || others.length === 0) continue;
    let { name } = first;
    for (let count = 2; Object.hasOwn(components[section], name); count++) name = `${first.name}${count}`;
    components[section][name] = first.holder[first.key];
    for (const { holder, key } of [first, ...others]) holder[key] = ref(section, name);
  }
}

const usesIn = (holder: unknown, nameOf: (part: Json, key: string) => string): Use[] =>
  Object.entries((holder ?? {}) as Record<string, Json>).map(([key, part]) => {
    return { name: nameOf(part, key), holder: holder as Json, key };
  });

/** Moves repeated parameters, responses and examples of `operations`. Responses first: their examples then occur once. */
export function shareAll(operations: Json[], components: Components): void {
  const parameters = operations.flatMap((operation) => usesIn(operation.parameters, ({ name }) => String(name)));
  share('parameters', parameters, components);
  const responses = operations.flatMap(({ responses }) =>
    usesIn(responses, ({ headers }, status) => {
      const isDeprecated = Object.hasOwn(headers as Json, 'Deprecation');
      return `${meanings[status]?.name ?? status}${isDeprecated ? 'Deprecated' : ''}`;
    }),
  );
  share('responses', responses, components);
  const bodies = [...responses.map(({ holder, key }) => holder[key]), ...Object.values(components.responses)] as {
    content?: Record<string, { examples?: Json }>;
  }[];
  const examples = bodies.flatMap(({ content }) => usesIn(content?.['application/json']?.examples, (_, code) => code));
  share('examples', examples, components);
}
