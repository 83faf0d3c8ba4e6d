/** Moves the parts of a document that occur more than once to its components. */
import { type Components, type Json, ref } from './components.ts';
import { sharedStatuses, withoutBody } from './operations.ts';
import { meanings } from './words.ts';

interface Use {
  name: string;
  holder: Json;
  key: string;
}

/** Moves values with the same name that occur more than once to components. */
function share(section: keyof Components, uses: Use[], components: Components): void {
  const groups = Map.groupBy(
    uses.filter(({ holder, key }) => !Object.hasOwn(holder[key] as Json, '$ref')),
    ({ name, holder, key }) => name + JSON.stringify(holder[key]),
  );
  for (const [first, ...others] of groups.values()) {
    if (first === undefined || others.length === 0) continue;
    if (Object.hasOwn(components[section], first.name)) throw new Error(`two ${section} are named ${first.name}`);
    components[section][first.name] = first.holder[first.key];
    for (const { holder, key, name } of [first, ...others]) holder[key] = ref(section, name);
  }
}

const entriesOf = (holder: unknown) =>
  Object.keys((holder ?? {}) as Json).map((key) => ({ holder: holder as Json, key }));

/** Moves repeated parameters, responses and examples of `operations`. Responses first: their examples then occur once. */
export function shareAll(operations: Json[], components: Components): void {
  const responseName = (status: string, { deprecated }: Json, response: Json) => {
    if (response.description === withoutBody.description) return 'ErrorWithoutBody';
    return `${meanings[Number(status)]?.name ?? status}${deprecated && !sharedStatuses.has(Number(status)) ? 'Deprecated' : ''}`;
  };
  const parameters = operations.flatMap(({ parameters }) => entriesOf(parameters));
  share(
    'parameters',
    parameters.map((use) => ({ ...use, name: (use.holder[use.key] as Json).name as string })),
    components,
  );
  const responses = operations.flatMap((operation) =>
    entriesOf(operation.responses).map((use) => ({
      ...use,
      name: responseName(use.key, operation, use.holder[use.key] as Json),
    })),
  );
  share('responses', responses, components);
  const bodies = [...responses.map(({ holder, key }) => holder[key]), ...Object.values(components.responses)] as {
    content?: Record<string, { examples?: Json }>;
  }[];
  const examples = bodies.flatMap(({ content }) => entriesOf(content?.['application/json']?.examples));
  share(
    'examples',
    examples.map((use) => ({ ...use, name: use.key })),
    components,
  );
}
