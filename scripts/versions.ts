/** Versions of releases: three numbers, as Semantic Versioning orders them. There are no pre-releases. */

const form = /^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)$/;

export const isVersion = (text: string) => form.test(text);

/** Negative if `one` is less than `other`, positive if it is greater. */
export function compareVersions(one: string, other: string): number {
  const others = other.split('.').map(Number);
  const differences = one.split('.').map((part, at) => Number(part) - (others[at] as number));
  return differences.find((difference) => difference !== 0) ?? 0;
}

/** Undefined if no name is a version. */
export function newestOf(names: string[]): string | undefined {
  return names.filter(isVersion).sort(compareVersions).at(-1);
}
